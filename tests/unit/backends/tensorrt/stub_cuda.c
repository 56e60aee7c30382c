/* A CUDA driver for tests: one GPU whose memory is that of the host. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t used = 0, total = 1000000;
static size_t sizes[4096];
static void *blocks[4096];
static int broken = 0;

void stub_reset(size_t memory) { used = 0; total = memory; broken = 0; memset(blocks, 0, sizeof blocks); }
void stub_limit(size_t memory) { total = memory; }
void stub_break(void) { broken = 1; }
size_t stub_used(void) { return used; }

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 7 + ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Stub GPU", length); return device == 7 ? 0 : 101; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 5000000000ULL; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)0x7f0000000010; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { return context == (void *)0x7f0000000010 ? 0 : 201; }
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) { *free_bytes = total > used ? total - used : 0; *total_bytes = total; return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t size) {
  if (used + size > total) return 2;
  void *block = malloc(size);
  for (int i = 0; i < 4096; i++) if (!blocks[i]) { blocks[i] = block; sizes[i] = size; break; }
  used += size;
  *address = (uint64_t)(uintptr_t)block;
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  for (int i = 0; i < 4096; i++) if (blocks[i] == (void *)(uintptr_t)address) {
    used -= sizes[i]; blocks[i] = 0; free((void *)(uintptr_t)address); return 0;
  }
  return 1;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)(uintptr_t)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)0x7f0000000020; return flags == 1 ? 0 : 1; }
int cuStreamSynchronize(void *stream) { return broken ? 700 : 0; }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = (void *)0x7f0000000030; return 0; }
int cuEventRecord(void *event, void *stream) { return stream == (void *)0x7f0000000020 ? 0 : 400; }
int cuEventSynchronize(void *event) { return 0; }
int cuEventElapsedTime(float *ms, void *start, void *end) { *ms = 0.25f; return 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuGetErrorName(int error, const char **name) {
  *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuGetErrorString(int error, const char **text) { *text = error == 700 ? "an illegal memory access was encountered" : "invalid argument"; return 0; }
