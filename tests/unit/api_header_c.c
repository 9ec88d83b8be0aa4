// SPDX-License-Identifier: Apache-2.0
// Both public headers seen by a C compiler; linked into api_header_test.cc's program.
#include "isthmus.h"
#include "nccl.h"

_Static_assert(sizeof(ncclUniqueId) == NCCL_UNIQUE_ID_BYTES, "the id is 128 bytes");

int isthmus_c_header_check(void);

int isthmus_c_header_check(void) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return (int)config.size;
}
