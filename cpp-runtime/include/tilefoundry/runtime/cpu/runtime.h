/// \file runtime.h
/// The CPU surface: plain C++17, no CuTe, no CUDA header, no BLAS symbol.
#pragma once

#include <tilefoundry/runtime/cpu/abi.h>
#include <tilefoundry/runtime/cpu/binary.h>
#include <tilefoundry/runtime/cpu/cast.h>
#include <tilefoundry/runtime/cpu/contract.h>
#include <tilefoundry/runtime/cpu/contract_computed.h>
#include <tilefoundry/runtime/cpu/conv2d.h>
#include <tilefoundry/runtime/cpu/copy.h>
#include <tilefoundry/runtime/cpu/dtype.h>
#include <tilefoundry/runtime/cpu/erf.h>
#include <tilefoundry/runtime/cpu/grouped_matmul.h>
#include <tilefoundry/runtime/cpu/index_update.h>
#include <tilefoundry/runtime/cpu/lanes.h>
#include <tilefoundry/runtime/cpu/matmul.h>
#include <tilefoundry/runtime/cpu/norm.h>
#include <tilefoundry/runtime/cpu/order.h>
#include <tilefoundry/runtime/cpu/parallel.h>
#include <tilefoundry/runtime/cpu/reduce.h>
#include <tilefoundry/runtime/cpu/rope.h>
#include <tilefoundry/runtime/cpu/selection.h>
#include <tilefoundry/runtime/cpu/softmax.h>
#include <tilefoundry/runtime/cpu/tags.h>
#include <tilefoundry/runtime/cpu/unary.h>
#include <tilefoundry/runtime/cpu/view.h>
