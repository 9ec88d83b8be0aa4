// SPDX-License-Identifier: Apache-2.0
// Status's storage and makers. Called wherever something fails, never on the fast path; cannot itself fail.
#include "base/status.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace isthmus {

std::string_view code_name(Code code) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "ok", "system_error", "internal_error", "invalid_argument", "invalid_usage", "remote_error", "in_progress", "timeout"};
  return kNames[static_cast<size_t>(code)];
}

Status::Status(Code code, std::string text, int origin_rank) {
  assert(code != Code::ok);
  detail_ = std::make_unique<Detail>(Detail{code, origin_rank, std::move(text)});
}

std::unique_ptr<Status::Detail> Status::copy_of(const Detail& detail) { return std::make_unique<Detail>(detail); }

Status& Status::operator=(const Status& other) {
  if (this != &other) detail_ = other.detail_ ? copy_of(*other.detail_) : nullptr;
  return *this;
}

const std::string& Status::text() const {
  static const std::string kEmpty;
  return detail_ ? detail_->text : kEmpty;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return {};
  return {code(), std::string(context) + ": " + text(), origin_rank()};
}

Status system_error(std::string text, int origin_rank) { return {Code::system_error, std::move(text), origin_rank}; }

Status errno_error(std::string_view what, int error_number) {
  std::array<char, 128> buffer{};
  const char* words = strerror_r(error_number, buffer.data(), buffer.size());  // GNU form: returns the text
  const bool out_of_files = error_number == EMFILE || error_number == ENFILE || error_number == ETOOMANYREFS;
  return system_error(std::string(what) + ": " + words + (out_of_files ? " (raise the limit on open files: ulimit -n)" : ""));
}

Status internal_error(std::string text, int origin_rank) { return {Code::internal_error, std::move(text), origin_rank}; }
Status invalid_argument(std::string text, int origin_rank) { return {Code::invalid_argument, std::move(text), origin_rank}; }
Status invalid_usage(std::string text, int origin_rank) { return {Code::invalid_usage, std::move(text), origin_rank}; }
Status remote_error(std::string text, int origin_rank) { return {Code::remote_error, std::move(text), origin_rank}; }
Status timeout_error(std::string text, int origin_rank) { return {Code::timeout, std::move(text), origin_rank}; }

}  // namespace isthmus
