// SPDX-License-Identifier: Apache-2.0
// The least that nvcc must be able to compile, with its headers and the host compiler that it finds, for device code to be built
// (meson.build). Nothing here runs.
#include <cstdint>

__global__ void probe(uint32_t* to) { *to = 1; }

void launch(uint32_t* to) { probe<<<1, 1>>>(to); }
