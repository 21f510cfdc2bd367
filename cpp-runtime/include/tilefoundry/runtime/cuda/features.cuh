/// \file features.cuh
/// Feature macros: what the umbrella pulls in on the CUDA target.
///
/// Code generation defines `TILEFOUNDRY_USE_<PART>` for the parts that it uses; topology, meshes, shards, copies and
/// element types are always there (`SHARDS` asks for nothing else). With none defined, everything is there.
///   ELEMENTWISE  unary, binary, cast, clamp, copy_n, fill      REDUCE  reduce
///   SYNC         sync                                          ASYNC   copy_async, commit, wait
///   MMA          mma.sync and wgmma fragments                  TMA     mbarriers, bulk and tensor-map loads, pipeline
///   MATMUL       matmul                                        CUTE    all of cute/tensor.hpp, for cute::copy and tiled
///                                                                      MMAs (about a second of compile time)
///   ATTENTION_TILES  attention by tiles, with what is done with every element
///   VIEWS    whole-tensor ops over strided views                   GROUPED grouped_matmul
///   ATTENTION  attention
#pragma once

#if !defined(TILEFOUNDRY_USE_ELEMENTWISE) && !defined(TILEFOUNDRY_USE_REDUCE) && !defined(TILEFOUNDRY_USE_SYNC) && \
    !defined(TILEFOUNDRY_USE_ASYNC) && !defined(TILEFOUNDRY_USE_MMA) && !defined(TILEFOUNDRY_USE_TMA) &&           \
    !defined(TILEFOUNDRY_USE_MATMUL) && !defined(TILEFOUNDRY_USE_CUTE) && !defined(TILEFOUNDRY_USE_SHARDS) && \
    !defined(TILEFOUNDRY_USE_VIEWS) && !defined(TILEFOUNDRY_USE_ATTENTION_TILES) && \
    !defined(TILEFOUNDRY_USE_GROUPED) && !defined(TILEFOUNDRY_USE_ATTENTION)
#define TILEFOUNDRY_USE_ELEMENTWISE
#define TILEFOUNDRY_USE_REDUCE
#define TILEFOUNDRY_USE_SYNC
#define TILEFOUNDRY_USE_ASYNC
#define TILEFOUNDRY_USE_MMA
#define TILEFOUNDRY_USE_TMA
#define TILEFOUNDRY_USE_MATMUL
#define TILEFOUNDRY_USE_CUTE
#define TILEFOUNDRY_USE_VIEWS
#define TILEFOUNDRY_USE_ATTENTION_TILES
#define TILEFOUNDRY_USE_GROUPED
#define TILEFOUNDRY_USE_ATTENTION
#endif
