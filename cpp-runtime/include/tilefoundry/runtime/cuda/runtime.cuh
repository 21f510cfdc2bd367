/// \file runtime.cuh
/// The CUDA surface. Reached through `<tilefoundry/runtime.h>` only.
#pragma once

#include <tilefoundry/runtime/cuda/features.cuh>

#ifdef TILEFOUNDRY_USE_CUTE
#include <cute/tensor.hpp>
#endif
#include <cute/algorithm/fill.hpp>

#include <tilefoundry/runtime/cuda/copy.cuh>
#include <tilefoundry/runtime/cuda/dtype.cuh>
#include <tilefoundry/runtime/cuda/fault.cuh>
#include <tilefoundry/runtime/cuda/local.cuh>
#include <tilefoundry/runtime/cuda/mesh.cuh>
#include <tilefoundry/runtime/cuda/registers.cuh>
#include <tilefoundry/runtime/cuda/shard_attrs.cuh>
#include <tilefoundry/runtime/cuda/shard_layout.cuh>
#include <tilefoundry/runtime/cuda/shard_tensor.cuh>
#include <tilefoundry/runtime/cuda/topology.cuh>
#include <tilefoundry/runtime/cuda/ops/launch_order.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

#ifdef TILEFOUNDRY_USE_ELEMENTWISE
#include <tilefoundry/runtime/cuda/ops/binary.cuh>
#include <tilefoundry/runtime/cuda/ops/cast.cuh>
#include <tilefoundry/runtime/cuda/ops/copy_n.cuh>
#include <tilefoundry/runtime/cuda/ops/select.cuh>
#include <tilefoundry/runtime/cuda/ops/unary.cuh>
#endif
#ifdef TILEFOUNDRY_USE_REDUCE
#include <tilefoundry/runtime/cuda/ops/reduce.cuh>
#endif
#ifdef TILEFOUNDRY_USE_SYNC
#include <tilefoundry/runtime/cuda/ops/sync.cuh>
#endif
#ifdef TILEFOUNDRY_USE_ASYNC
#include <tilefoundry/runtime/cuda/ops/copy_async.cuh>
#include <tilefoundry/runtime/cuda/ops/staged_packs.cuh>
#endif
#ifdef TILEFOUNDRY_USE_MMA
#include <tilefoundry/runtime/cuda/ops/mma.cuh>
#endif
#ifdef TILEFOUNDRY_USE_TMA
#include <tilefoundry/runtime/cuda/ops/tma.cuh>
#endif
#ifdef TILEFOUNDRY_USE_MATMUL
#include <tilefoundry/runtime/cuda/ops/matmul.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_group.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_pair.cuh>
#endif
#ifdef TILEFOUNDRY_USE_ATTENTION_TILES
#include <tilefoundry/runtime/cuda/ops/attention_tiles.cuh>
#endif
#ifdef TILEFOUNDRY_USE_VIEWS
#include <tilefoundry/runtime/cuda/ops/conv2d.cuh>
#include <tilefoundry/runtime/cuda/ops/index_update.cuh>
#include <tilefoundry/runtime/cuda/ops/rope.cuh>
#include <tilefoundry/runtime/cuda/ops/selection.cuh>
#include <tilefoundry/runtime/cuda/ops/view_copy.cuh>
#endif
#ifdef TILEFOUNDRY_USE_GROUPED
#include <tilefoundry/runtime/cuda/ops/grouped_matmul.cuh>
#endif
#ifdef TILEFOUNDRY_USE_ATTENTION
#include <tilefoundry/runtime/cuda/ops/attention.cuh>
#endif
