// Runs a plan that `trtdiag export-engine` wrote, without Python: loads it, gives it zeros of the usual sizes of a
// profile, and prints what comes out.
//
//     g++ -std=c++17 run_plan.cpp -o run_plan -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lnvinfer -lcudart
//     ./run_plan engine_0.plan [profile]
//
// engines.json beside the plan says the same of bindings and profiles as the engine itself is asked for here.  For
// TensorRT 8.6 to 11; with TensorRT-RTX include its headers and link tensorrt_rtx.
#include <NvInfer.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Logger : nvinfer1::ILogger {
  void log(Severity severity, char const* text) noexcept override {
    if (severity <= Severity::kWARNING) std::cerr << text << '\n';
  }
};

[[noreturn]] void fail(std::string const& why) {
  std::cerr << "run_plan: " << why << '\n';
  std::exit(1);
}

void check(cudaError_t status) {
  if (status != cudaSuccess) fail(cudaGetErrorString(status));
}

// Memory of the GPU, or of the host for the few numbers that TensorRT reads there.
struct Buffer {
  explicit Buffer(std::size_t bytes) : size(bytes) { check(cudaMalloc(&memory, bytes ? bytes : 1)); }
  ~Buffer() { cudaFree(memory); }
  Buffer(Buffer const&) = delete;
  Buffer& operator=(Buffer const&) = delete;
  void* memory = nullptr;
  std::size_t size;
};

double bytesOf(nvinfer1::DataType type) {
  using nvinfer1::DataType;
  switch (type) {
    case DataType::kINT8:
    case DataType::kUINT8:
    case DataType::kBOOL:
    case DataType::kFP8: return 1;
    case DataType::kHALF: return 2;
#if NV_TENSORRT_MAJOR >= 10
    case DataType::kBF16: return 2;
    case DataType::kINT64: return 8;
    case DataType::kINT4: return 0.5;
#endif
    default: return 4;
  }
}

std::int64_t elements(nvinfer1::Dims const& dims) {
  std::int64_t count = 1;
  for (int axis = 0; axis < dims.nbDims; ++axis) count *= dims.d[axis];
  return count;
}

std::string words(nvinfer1::Dims const& dims) {
  std::string text = "[";
  for (int axis = 0; axis < dims.nbDims; ++axis) text += (axis ? ", " : "") + std::to_string(dims.d[axis]);
  return text + "]";
}

// The usual values of a number that TensorRT reads on the host, as many as its tensor has elements.
std::vector<std::int64_t> usualValues(nvinfer1::ICudaEngine& engine, char const* name, int profile, std::int64_t count) {
#if NV_TENSORRT_MAJOR > 10 || (NV_TENSORRT_MAJOR == 10 && NV_TENSORRT_MINOR >= 11)
  auto const* values = engine.getProfileTensorValuesV2(name, profile, nvinfer1::OptProfileSelector::kOPT);
#elif NV_TENSORRT_MAJOR == 10
  auto const* values = engine.getProfileTensorValues(name, profile, nvinfer1::OptProfileSelector::kOPT);
#else
  std::int32_t const* values = nullptr;
  (void)engine;
  (void)profile;
#endif
  if (values == nullptr) fail(std::string("the values of ") + name + " are not told: see profiles in engines.json");
  return {values, values + count};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("give the plan: run_plan engine_0.plan [profile]");
  int const profile = argc > 2 ? std::atoi(argv[2]) : 0;
  std::ifstream file(argv[1], std::ios::binary);
  if (!file) fail(std::string("cannot read ") + argv[1]);
  std::vector<char> const plan{std::istreambuf_iterator<char>(file), {}};

  Logger logger;
  std::unique_ptr<nvinfer1::IRuntime> runtime{nvinfer1::createInferRuntime(logger)};
  if (!runtime) fail("TensorRT cannot start");
  // Of a plan that is version_compatible: runtime->setEngineHostCodeAllowed(true), if you trust the file.
  std::unique_ptr<nvinfer1::ICudaEngine> engine{runtime->deserializeCudaEngine(plan.data(), plan.size())};
  if (!engine) fail("TensorRT cannot read the plan: engines.json says for which release and GPU it is");
  std::unique_ptr<nvinfer1::IExecutionContext> context{engine->createExecutionContext()};
  if (!context) fail("TensorRT has no memory for the engine");
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  if (profile < 0 || profile >= engine->getNbOptimizationProfiles()) fail("the engine has no such profile");
  if (!context->setOptimizationProfileAsync(profile, stream)) fail("the profile cannot be taken");

  std::vector<std::unique_ptr<Buffer>> held;
  std::vector<std::vector<std::int64_t>> onHost;
  std::vector<std::vector<std::int32_t>> onHostShort;
  onHost.reserve(engine->getNbIOTensors());
  onHostShort.reserve(engine->getNbIOTensors());
  auto const give = [&](char const* name, void* memory) {
    if (!context->setTensorAddress(name, memory)) fail(std::string("the memory of ") + name + " does not fit");
  };

  for (int index = 0; index < engine->getNbIOTensors(); ++index) {  // all inputs first: outputs follow from them
    char const* name = engine->getIOTensorName(index);
    if (engine->getTensorIOMode(name) != nvinfer1::TensorIOMode::kINPUT) continue;
    auto const type = engine->getTensorDataType(name);
    if (engine->getTensorLocation(name) == nvinfer1::TensorLocation::kHOST) {
      onHost.push_back(usualValues(*engine, name, profile, elements(engine->getTensorShape(name))));
      onHostShort.emplace_back(onHost.back().begin(), onHost.back().end());
      bool const isShort = type == nvinfer1::DataType::kINT32;
      give(name, isShort ? static_cast<void*>(onHostShort.back().data()) : static_cast<void*>(onHost.back().data()));
      continue;
    }
    auto const dims = engine->getProfileShape(name, profile, nvinfer1::OptProfileSelector::kOPT);
    if (!context->setInputShape(name, dims)) fail(std::string("the sizes of ") + name + " are outside of the profile");
    held.push_back(std::make_unique<Buffer>(static_cast<std::size_t>(elements(dims) * bytesOf(type) + 0.5)));
    check(cudaMemsetAsync(held.back()->memory, 0, held.back()->size, stream));
    give(name, held.back()->memory);
    std::cout << name << ' ' << words(dims) << '\n';
  }

  struct Output {
    char const* name;
    nvinfer1::DataType type;
    nvinfer1::Dims dims;
    Buffer* buffer;
  };
  std::vector<Output> outputs;
  for (int index = 0; index < engine->getNbIOTensors(); ++index) {
    char const* name = engine->getIOTensorName(index);
    if (engine->getTensorIOMode(name) != nvinfer1::TensorIOMode::kOUTPUT) continue;
    auto const dims = context->getTensorShape(name);
    if (elements(dims) < 0) fail(std::string("the data decide the size of ") + name + ": it needs an IOutputAllocator");
    auto const type = engine->getTensorDataType(name);
    held.push_back(std::make_unique<Buffer>(static_cast<std::size_t>(elements(dims) * bytesOf(type) + 0.5)));
    give(name, held.back()->memory);
    outputs.push_back({name, type, dims, held.back().get()});
  }

  if (!context->enqueueV3(stream)) fail("the engine cannot run");
  check(cudaStreamSynchronize(stream));
  for (auto const& output : outputs) {
    std::cout << output.name << ' ' << words(output.dims);
    if (output.type == nvinfer1::DataType::kFLOAT && output.buffer->size) {
      std::vector<float> values(output.buffer->size / sizeof(float));
      check(cudaMemcpy(values.data(), output.buffer->memory, output.buffer->size, cudaMemcpyDeviceToHost));
      std::cout << " begins with " << values.front();
    }
    std::cout << '\n';
  }
  check(cudaStreamDestroy(stream));
  return 0;
}
