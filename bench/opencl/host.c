// Runs OpenCL kernels on the first CPU device of a platform whose name contains "Portable Computing Language". Every
// function returns 0 or OpenCL's error, unless stated otherwise.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static cl_context context;
static cl_command_queue queue;
static cl_program program;
static cl_device_id device;

// Compiles a program. Writes the platform's version, or why the program does not compile, to `text`.
int32_t opencl_open(const char* source, char* text, uint32_t bytes) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  cl_int error = clGetPlatformIDs(16, platforms, &count);
  if (error != CL_SUCCESS) return error;
  for (cl_uint i = 0; i < count && device == NULL; i++) {
    char name[256];
    clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
    if (strstr(name, "Portable Computing Language") == NULL) continue;
    clGetPlatformInfo(platforms[i], CL_PLATFORM_VERSION, bytes, text, NULL);
    error = clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL);
    if (error != CL_SUCCESS) return error;
  }
  if (device == NULL) return CL_DEVICE_NOT_FOUND;
  cl_uint units = 0;
  clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
  const size_t length = strlen(text);
  snprintf(text + length, bytes - length, ", %u compute unit%s", units, units == 1 ? "" : "s");
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  if (error == CL_SUCCESS) queue = clCreateCommandQueue(context, device, 0, &error);
  if (error == CL_SUCCESS) program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  if (error != CL_SUCCESS) return error;
  error = clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL);
  if (error != CL_SUCCESS) clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, text, NULL);
  return error;
}

// Returns a kernel, or null.
void* opencl_kernel(const char* name) { return clCreateKernel(program, name, NULL); }

// Returns a copy of memory on the device, or null.
void* opencl_copy(void* bytes, uint64_t length) {
  return clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, length, bytes, NULL);
}

int32_t opencl_read(void* buffer, void* bytes, uint64_t length) {
  return clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, length, bytes, 0, NULL, NULL);
}

int32_t opencl_pass_buffer(void* kernel, uint32_t index, void* buffer) {
  return clSetKernelArg(kernel, index, sizeof(cl_mem), &buffer);
}

int32_t opencl_pass(void* kernel, uint32_t index, void* value, uint32_t bytes) {
  return clSetKernelArg(kernel, index, bytes, value);
}

// Launches a kernel and waits until it is done.
int32_t opencl_run(void* kernel, uint32_t groups_x, uint32_t groups_y, uint32_t group_x, uint32_t group_y) {
  const size_t local[2] = {group_x, group_y}, global[2] = {(size_t)groups_x * group_x, (size_t)groups_y * group_y};
  const cl_int error = clEnqueueNDRangeKernel(queue, kernel, groups_y * group_y > 1 ? 2 : 1, NULL, global, local, 0, NULL, NULL);
  return error == CL_SUCCESS ? clFinish(queue) : error;
}
