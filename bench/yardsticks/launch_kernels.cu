// Runs kernels of a PTX module, one after another, for a tool that looks at them: launch_kernels MODULE.ptx < LAUNCHES
//
// Each launch is a line: the kernel's name, blocks, threads of a block, and its arguments, each an i with a number or a
// b with the bytes of a buffer in hexadecimal digits. A launch that fails is named, and the others go on if they can.
#include <cuda.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

static void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::cerr << call << ": " << (name == nullptr ? "?" : name) << std::endl;
  std::exit(1);
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::ifstream file(arguments[1]);
  std::string ptx((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  check(cuInit(0), "cuInit");
  CUdevice device;
  CUcontext context;
  CUmodule module;
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuModuleLoadData(&module, ptx.c_str()), "cuModuleLoadData");
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string name, word;
    unsigned grid, block;
    words >> name >> grid >> block;
    std::vector<CUdeviceptr> buffers;
    std::vector<unsigned long long> values;
    while (words >> word) {
      if (word[0] == 'i') {
        values.push_back(std::stoll(word.substr(1)));
        continue;
      }
      std::vector<unsigned char> bytes;
      for (size_t at = 1; at + 1 < word.size(); at += 2) bytes.push_back(std::stoi(word.substr(at, 2), nullptr, 16));
      CUdeviceptr buffer;
      check(cuMemAlloc(&buffer, bytes.size()), "cuMemAlloc");
      check(cuMemcpyHtoD(buffer, bytes.data(), bytes.size()), "cuMemcpyHtoD");
      buffers.push_back(buffer);
      values.push_back(buffer);
    }
    std::vector<void*> parameters;
    for (auto& value : values) parameters.push_back(&value);
    CUfunction kernel;
    check(cuModuleGetFunction(&kernel, module, name.c_str()), "cuModuleGetFunction");
    CUresult launched = cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, nullptr, parameters.data(), nullptr);
    CUresult result = launched == CUDA_SUCCESS ? cuCtxSynchronize() : launched;
    if (result != CUDA_SUCCESS) std::cout << "failed " << name << " " << result << std::endl;
    for (auto buffer : buffers) cuMemFree(buffer);
  }
}
