// SPDX-License-Identifier: Apache-2.0
// Whether this build is watched by a sanitizer: gcc says so by a macro, clang by a feature. Used by kernels/, which then prefers what can
// be watched, and by tests, whose time and memory limits then make room for the watching.
#pragma once

#if defined(__has_feature)
#define ISTHMUS_HAS_SANITIZER(name) __has_feature(name##_sanitizer)
#else
#define ISTHMUS_HAS_SANITIZER(name) 0
#endif

namespace isthmus {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || ISTHMUS_HAS_SANITIZER(address) || ISTHMUS_HAS_SANITIZER(thread)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace isthmus
