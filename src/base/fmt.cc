// SPDX-License-Identifier: Apache-2.0
// fmt's functions, compiled once for everybody: as a header-only library they would be compiled again in every file, which takes most
// of a build's time, and its shared library must not be needed by a preloaded one. Nothing calls this file by name.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// What fmt's headers declare as instantiated elsewhere and formatting of char uses.
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
template void vformat_to<char>(buffer<char>&, string_view, basic_format_args<buffer_context<char>>, locale_ref);
template dragonbox::decimal_fp<float> dragonbox::to_decimal<float>(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal<double>(double) noexcept;
template void buffer<char>::append<char>(const char*, const char*);

}  // namespace detail
FMT_END_NAMESPACE
