// SPDX-License-Identifier: Apache-2.0
// Where Isthmus was built without UCX's headers. See ucx.h.
#include "topology/discover/ucx.h"

namespace isthmus::topology {

Result<std::unique_ptr<Ucx>> Ucx::open() { return std::unique_ptr<Ucx>(); }

}  // namespace isthmus::topology
