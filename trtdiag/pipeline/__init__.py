"""The whole way of the data.  A stage takes what is known and gives more; ``stages.py`` names all of them, in order.

analyze.py          source -> Program -> facts -> findings             gives an Analysis
  plan_engines.py   lower, precision, types, support, partition       gives an EnginePlan
  try_build.py      each planned engine to the real builder           gives TriedBuilds
compile.py          Analysis -> EnginePlan -> networks -> program      gives a State (state.py)
  build.py          networks -> engines -> the program that calls them
  build_fallback.py     TensorRT refuses an engine: another one
  compare.py        the program beside the original, at the corners
  accuracy_repair.py    an engine is wrong: another one
  compile_errors.py why a program is not compiled
verify.py           a compiled program and its original                gives a State
bench.py            a compiled program and its peers                   gives a Benchmark
"""
