// SPDX-License-Identifier: Apache-2.0
// A drawing (SVG) of one seed of a study: accuracies over the rounds, how far centres have moved, and who is in which cluster. Pure;
// nothing here fails.
#pragma once

#include <string>

#include "cli/federated/study.h"

namespace isthmus::cli {

/// Of the study's first seed. A whole SVG document.
std::string timeline_svg(const Study& study);

}  // namespace isthmus::cli
