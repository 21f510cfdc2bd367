"""The compiler's rules, one line each in our words, by the names that test markers use."""

TITLE = "What the compiler promises and the tests that show it"
INTRO = (
    "Written by `tools/spec_table.py` from the `spec` markers; `test_spec_table.py` checks that it is up to date. The "
    "calling convention and jit's in-process cache are in the "
    "[runtime's table](../../tilefoundry-runtime/tests/README.md)."
)

RULES = {
    # From a program to a library
    "pipeline.steps": "lower gives statement-level functions of one target, build makes them run.",
    "pipeline.source": "Generated source includes the umbrella header alone, says which ops it came from, and exports "
    "the entry under its name.",
    "pipeline.sync": "Generated code meets through ops::sync alone.",
    "pipeline.extents": "A block's threads are a constant of its code; a grid that the call decides is the launch's.",
    "pipeline.one-entry": "Generated code calls one entry per op and names none of the implementations behind it.",
    "pipeline.host-part": "The host's text of a CUDA library names no CUDA or CuTe type.",
    "pipeline.libraries": "A CUDA library needs neither cudart nor libcuda and opens without a GPU; none needs a BLAS.",
    "pipeline.equal-kernels": "Kernels that differ in names alone are built once.",
    "pipeline.goldens": "The source of a dozen programs is kept and compared.",
    "pipeline.cross-compile": "Device code compiles for other architectures where there is no GPU.",
    "target.declared": "A target that the module declares is taken; another one is refused naming both.",
    "target.no-gpu": "Without a GPU the bare target names the one to give instead.",
    "target.unknown-gpu": "A GPU that the compiler does not know is refused with those it knows.",
    "refused.by-name": "What a target does not compute is refused at lower, by name, with the way out.",
    "refused.gpu-statements": "Synchronisation, asynchronous copies and matrix instructions are refused on a CPU.",
    "placement.text": "A placed program prints as source that, read back, is compiled to the same code, byte for byte.",
    "placement.layouts": "A placed kernel's text says which instance holds what where the schedule's spread is exact; "
    "edited layouts are the code.",
    "placement.statements": "A kernel of a placed program may be a @prim_func of its signature, on both targets.",
    "placement.open-scopes": "A kernel's mesh is its launch, chosen or written; one that does not fit is refused with "
    "one that does.",
    "workspace.one": "A call takes at most one workspace, whose places are shared by what is not needed at once.",
    "reductions.split": "On a GPU, reductions of many elements to few results go in two steps, over many blocks.",
    "reductions.order": "Equal inputs give equal bits, whichever blocks finish first.",
    "placement.erased": "On a CPU, placement that keeps values is dropped.",
    "loops.static": "Short loops with static bounds are written out.",
    "loops.run-time": "Loops whose turns the call decides, or of many turns, are run by the host.",
    "variants.run-time": "The call's extents choose the variant.",
    "variants.calls": "A call of a function with variants runs the one that the entry's extents choose.",
    "results.kinds": "Literals, inputs, and one value twice are results of their own.",
    "statements.cpu": "Statement-level programs run on a CPU: loops, accumulators, branches, tile ops, launches.",
    "ops.registry": "Each op of the registry compiles on both targets, or is refused at lower by name.",
    "ops.all": "Every op of the language compiles and equals the evaluator.",
    "numbers.rounding": "Sums, products, softmax and norms add up in a wide type and round once; a cast rounds where "
    "it stands, also within a kernel.",
    "programs.random": "Random programs equal the evaluator; a failure is shown on a small program.",
    "explain.kernels": "explain gives kernels, bytes, operations, bounds, and why values are passed through memory.",
    "explain.launches": "explain gives each launch's path and geometry before anything is compiled.",
    "kernels.records": "Every launch's path, geometry, registers and memories are known, also from the cache and after "
    "saving; the image, cuobjdump and the driver agree on them.",
    "kernels.symbols": "A kernel's symbol carries its path in the program, at most 128 characters of it.",
    "ranges.nested": "Asked for, profilers see a range per call and within it one per launch, named by path; an error "
    "leaves none open.",
    "ranges.off": "Not asked for, there are none.",
    # The calling convention, compiled in
    "args.refused": "Count, rank, dtype, extents, equal values of one DimVar, device and strides are checked before "
    "anything runs, naming entry, parameter, expected and actual.",
    "args.outputs": "Outputs are checked like inputs; strided and overlapping ones are refused.",
    "args.strides": "Axes of extent one may carry any stride.",
    "args.empty": "Empty outputs launch nothing; reductions over nothing give identities, extremes refuse.",
    "args.windows": "A window that the call's extents or values put outside is refused by its op and axis; where "
    "extents decide, before anything is written.",
    "args.grad": "Inputs that require a gradient are taken, and results join no graph.",
    "args.dlpack": "Other providers of DLPack tensors may call with outputs.",
    "args.dynamic": "Extents change from call to call without compiling again.",
    "inplace.window": "An input may be its own output where one window is replaced; only the window is written.",
    "inplace.recorded": "Both targets record such pairs, in every variant or not at all.",
    "inplace.otherwise": "All other overlap is refused before anything is written.",
    "streams.current": "Work goes to the framework's current stream.",
    "args.one-device": "Tensors on two GPUs in one call are refused by name.",
    "launch.errors": "What the driver refuses of a launch is raised with the kernel's name and the driver's word.",
    "streams.graphs": "Calls can be captured, and a graph replays on new values.",
    "barrier.resident": "A grid that cannot be resident together is refused before the launch.",
    # Options, caches
    "options.sources": "Sources lie beside a library where they were asked for, also where it was built before; "
    "nothing else is left behind.",
    "options.flags": "Levels, line tables and further flags reach the compiler that is chosen.",
    "cache.key": "A library's key covers sources, flags, architecture, both compilers, headers and tvm-ffi.",
    "cache.second-process": "A second process does not compile.",
    "cache.recall": "A program that an earlier process compiled is loaded without lowering it, for as long as the "
    "compiler itself, its tools and the options are the same.",
    "cache.notes": "What is noted of a file counts until the file changes in any way.",
    "cache.damaged": "Damaged entries are built again.",
    "cache.killed": "A killed builder leaves no lock.",
    "cache.unwritable": "An unwritable directory falls back to a private one, with a warning.",
    "cache.read-only": "A cache that cannot be written serves what it holds, on both targets.",
    "cache.limit": "The least recently used libraries go first.",
    "cache.single-flight": "Threads build one library once.",
    "cache.variable": "A variable moves the cache.",
    "cache.headers": "The runtime's headers are precompiled from the second library on, or not at all.",
    "tools.errors": "Missing, too old, and unable to target this GPU are errors of their own.",
    "tools.cache": "The cache is shown, pruned, cleared and warmed from the command line.",
    "tools.doctor": "doctor says what was found and one remedy for what was not.",
    # The C++ runtime
    "cpp.one-target": "The umbrella asks for exactly one target, in a sentence.",
    "cpp.declarations": "Every declaration has its name, template signature and noexcept, on chips old and new.",
    "cpp.vocabulary": "Tags and element types have the same names on both targets.",
    "cpp.meshes": "Mesh axes belong to levels right to left; coordinates, local shapes and offsets follow.",
    "cpp.copies": "A plain tensor is the row-major reshape of what it holds, a part or the whole, split or not.",
    "cpp.refused": "What does not fit is a compile error with a sentence.",
    "cpp.annotations": "Ops, functors and tags are device code; helpers of views and layouts compile on a host too.",
    "cpp.comments": "Comments of entries say who takes part, where the result is valid and the workspace; every "
    "static_assert carries a sentence.",
    "cpp.alone": "Every header compiles by itself, with warnings as errors.",
    "cpp.chips": "What needs a newer chip is refused by its name where it is called.",
    "cpp.features": "A feature macro brings in what it names and no other part.",
    "cpp.cpu": "The CPU surface equals numpy in float64.",
    "cpp.gpu": "Every op equals a host oracle on a GPU, between guard bands, also as older chips compile it.",
    "cpp.wheel": "From a wheel alone, CPU code compiles and runs with g++ and CUDA code with the extra's wheels.",
    # Cases that broke other systems
    "case.directory-names": "A cache directory with a space or letters beyond ASCII.",
    "case.cold-processes": "Eight processes that start cold on one module: one compiles.",
    "case.names": "Parameters named like words of C++ and CUDA; two modules with one entry name.",
    "case.no-tools": "No compiler, or a cache that cannot be written: named, and a later call works.",
    "case.unplaced": "A large sum, broadcasts, a reflected operator, a sibling's call, a row sum; nothing placed.",
    "case.byte-offset": "A producer that gives a base pointer and an offset.",
    "case.strided-output": "An output with gaps is refused, and the gaps stay.",
    "case.odd-offset": "A contiguous view at an odd offset.",
    "case.wrong-inputs": "A transposed, a wide and a misshapen input, each refused by name.",
    "case.awkward-rows": "Rows of 1, 3, 31, 33, 769 and 1025 elements; memory around the output stays.",
    "case.nan-extremes": "NaN comes through max, min and absmax; negative rows keep their maximum.",
}
"""Rule -> what holds."""
