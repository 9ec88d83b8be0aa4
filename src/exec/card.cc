// SPDX-License-Identifier: Apache-2.0
// The card's bytes. Called at communicator set-up; decode() refuses malformed and oversized cards.
#include "exec/card.h"

#include <cstring>

#include "base/bytes.h"

namespace isthmus::exec {

namespace {
constexpr uint8_t kVersion = 5;
constexpr size_t kMaxText = 256;
constexpr size_t kMaxBlob = 512;
constexpr size_t kMaxCpuBytes = 512;  // of 4096 CPUs
}  // namespace

std::vector<std::byte> ProcessCard::encode() const {
  std::vector<std::byte> bytes(64 + 4 * kMaxText + kMaxCpuBytes + shm.size() + tcp.size());
  Writer writer(bytes);
  writer.u8(kVersion).u8(probes ? 1 : 0).fill(process).u64(host).i32(pid).sized_text(std::string_view(hostname).substr(0, kMaxText));
  for (const std::string& name : {region, site, zone}) writer.sized_text(std::string_view(name).substr(0, kMaxText));
  const bool writable = cpus.size() <= kMaxCpuBytes / sizeof(uint64_t);
  writer.sized_bytes(std::as_bytes(std::span(cpus).first(writable ? cpus.size() : 0)));
  writer.sized_bytes(shm).sized_bytes(tcp);
  bytes.resize(writer.written());
  return bytes;
}

Result<ProcessCard> ProcessCard::decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  if (const uint8_t version = reader.u8(); version != kVersion) {
    return remote_error("a rank's process card has version " + std::to_string(version) + ", this build reads " + std::to_string(kVersion) +
                        ": run the same Isthmus on all ranks");
  }
  ProcessCard card;
  const uint8_t probes = reader.u8();
  card.probes = probes != 0;
  reader.fill(card.process);
  card.host = reader.u64();
  card.pid = reader.i32();
  card.hostname = reader.sized_text(kMaxText);
  for (std::string* name : {&card.region, &card.site, &card.zone}) *name = reader.sized_text(kMaxText);
  const auto cpus = reader.sized_bytes(kMaxCpuBytes);
  const auto shm = reader.sized_bytes(kMaxBlob), tcp = reader.sized_bytes(kMaxBlob);
  if (!reader.finished() || probes > 1 || cpus.size() % sizeof(uint64_t) != 0) return remote_error("a rank's process card is malformed");
  card.cpus.resize(cpus.size() / sizeof(uint64_t));
  if (!cpus.empty()) std::memcpy(card.cpus.data(), cpus.data(), cpus.size());
  card.shm.assign(shm.begin(), shm.end());
  card.tcp.assign(tcp.begin(), tcp.end());
  return card;
}

}  // namespace isthmus::exec
