// SPDX-License-Identifier: Apache-2.0
// The shared-memory ring: every size at every position, order, fullness, two threads with sleep flags, and garbage from the other end.
#include "transport/local/shm_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>
#include <thread>
#include <vector>

namespace isthmus::transport {
namespace {

constexpr uint64_t kRing = RingPair::kLeastBytes;

std::byte pattern(uint64_t seed, uint64_t i) { return static_cast<std::byte>((seed * 0x9e3779b97f4a7c15U + i * 197) >> 5); }

std::vector<std::byte> filled(uint64_t seed, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  for (uint64_t i = 0; i < bytes; ++i) out[i] = pattern(seed, i);
  return out;
}

class ShmRingTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = RingPair::create(kRing);
    ASSERT_TRUE(made.ok()) << made.status().text();
    pair = std::move(made).value();
    writer = RingWriter(pair.direction(0));
    reader = RingReader(pair.direction(0));
  }

  void expect_record(uint64_t seed, uint64_t bytes) {
    RingReader::Record record;
    ASSERT_EQ(reader.next(record), RingReader::Found::record);
    ASSERT_EQ(record.kind, ring::Kind::first);
    ASSERT_EQ(record.payload.size(), bytes);
    for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(record.payload[i], pattern(seed, i)) << "byte " << i << " of " << bytes;
    std::array<std::byte, wire::FrameHeader::kBytes> copy;
    std::memcpy(copy.data(), record.header, copy.size());
    const auto header = wire::decode_frame(copy, UINT64_MAX);
    ASSERT_TRUE(header.ok());
    ASSERT_EQ(header->key, seed);
    reader.release(record);
  }
  bool write(uint64_t seed, uint64_t bytes) {
    const wire::FrameHeader header{.length = bytes, .key = seed};
    return writer.write(&header, filled(seed, bytes));
  }

  RingPair pair;
  RingWriter writer;
  RingReader reader;
};

TEST_F(ShmRingTest, CarriesEverySizeAcrossEveryPosition) {
  std::mt19937 random(1);
  RingReader::Record record;
  for (uint64_t seed = 1; seed <= 20000; ++seed) {
    const uint64_t limit = seed % 16 == 0 ? ring::most_payload(kRing) : 300;
    const uint64_t bytes = seed < 400 ? seed : random() % (limit + 1);
    EXPECT_EQ(reader.next(record), RingReader::Found::nothing);
    ASSERT_TRUE(write(seed, bytes));
    ASSERT_NO_FATAL_FAILURE(expect_record(seed, bytes));
  }
}

TEST_F(ShmRingTest, FillsUpAndEmptiesAtEveryPosition) {
  for (uint64_t shift = 0; shift < kRing / ring::kLineBytes; shift += 7) {
    uint64_t written = 0;
    while (write(written, 1000)) ++written;
    EXPECT_GE(written, 7 * kRing / 8 / 1088);
    EXPECT_FALSE(writer.fits(1000));
    for (uint64_t i = 0; i < written; ++i) ASSERT_NO_FATAL_FAILURE(expect_record(i, 1000));
    EXPECT_TRUE(writer.fits(ring::most_payload(kRing))) << "the largest record fits into a ring that was read";
    for (int i = 0; i < 7; ++i) {
      ASSERT_TRUE(write(9, 8));
      ASSERT_NO_FATAL_FAILURE(expect_record(9, 8));
    }
  }
}

TEST_F(ShmRingTest, ContinuationsCarryNoHeader) {
  const auto bytes = filled(3, 100);
  ASSERT_TRUE(writer.write(nullptr, bytes));
  ASSERT_TRUE(writer.write(nullptr, std::span(bytes).first(5)));
  RingReader::Record record;
  for (const size_t size : {size_t{100}, size_t{5}}) {
    ASSERT_EQ(reader.next(record), RingReader::Found::record);
    EXPECT_EQ(record.kind, ring::Kind::more);
    EXPECT_TRUE(std::ranges::equal(record.payload, std::span(bytes).first(size)));
    reader.release(record);
  }
}

TEST_F(ShmRingTest, SmallFramesTakeOneCacheLine) {
  const wire::FrameHeader header{.length = 8};
  ASSERT_TRUE(writer.write(&header, filled(1, 8)));
  EXPECT_NE(ring::word(pair.direction(0).data).load(), 0U);
  ASSERT_TRUE(writer.write(&header, filled(2, 8)));
  EXPECT_NE(ring::word(pair.direction(0).data + 64).load(), 0U);
}

TEST_F(ShmRingTest, DirectionsDoNotMeet) {
  RingWriter back(pair.direction(1));
  RingReader back_reader(pair.direction(1));
  ASSERT_TRUE(write(1, 16000));
  const wire::FrameHeader header{.length = 16000, .key = 2};
  ASSERT_TRUE(back.write(&header, filled(2, 16000)));
  ASSERT_NO_FATAL_FAILURE(expect_record(1, 16000));
  reader = back_reader;
  ASSERT_NO_FATAL_FAILURE(expect_record(2, 16000));
}

TEST_F(ShmRingTest, SleepersAreWokenOnce) {
  EXPECT_TRUE(reader.arm());
  ASSERT_TRUE(write(1, 8));
  EXPECT_TRUE(writer.take_reader_sleeps());
  EXPECT_FALSE(writer.take_reader_sleeps());
  EXPECT_FALSE(reader.arm()) << "there is a record";
  reader.disarm();
  EXPECT_FALSE(writer.take_reader_sleeps());
  ASSERT_NO_FATAL_FAILURE(expect_record(1, 8));

  while (write(2, 4000)) {
  }
  EXPECT_TRUE(writer.arm(4000));
  int woken = 0;
  RingReader::Record record;
  while (reader.next(record) == RingReader::Found::record) woken += reader.release(record) ? 1 : 0;
  EXPECT_EQ(woken, 1);
  EXPECT_FALSE(writer.arm(4000)) << "there is room";
}

TEST_F(ShmRingTest, TwoThreadsSleepAndWakeWithoutLosingAnything) {
  std::atomic<int> reader_bell = 0;
  std::atomic<int> writer_bell = 0;
  const auto wait = [](std::atomic<int>& bell) {
    bell.wait(0);
    bell.store(0);
  };
  const auto ring_bell = [](std::atomic<int>& bell) {
    bell.store(1);
    bell.notify_one();
  };
  constexpr uint64_t kFrames = 50000;
  const auto size_of = [](uint64_t i) { return i * 2654435761U % (i % 64 == 0 ? 16000 : 200); };
  std::thread producer([&] {
    for (uint64_t i = 0; i < kFrames; ++i) {
      const wire::FrameHeader header{.length = size_of(i), .key = i};
      const auto payload = filled(i, size_of(i));
      while (!writer.write(&header, payload)) {
        if (writer.arm(payload.size())) wait(writer_bell);
        writer.disarm();
      }
      if (writer.take_reader_sleeps()) ring_bell(reader_bell);
    }
  });
  RingReader::Record record;
  for (uint64_t i = 0; i < kFrames; ++i) {
    while (reader.next(record) == RingReader::Found::nothing) {
      if (reader.arm()) wait(reader_bell);
      reader.disarm();
    }
    ASSERT_EQ(record.payload.size(), size_of(i));
    for (uint64_t at = 0; at < size_of(i); at += 13) ASSERT_EQ(record.payload[at], pattern(i, at));
    if (reader.release(record)) ring_bell(writer_bell);
  }
  producer.join();
}

TEST_F(ShmRingTest, GarbageIsReportedAndNotFollowed) {
  std::mt19937_64 random(7);
  int broken = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t garbage = random() >> (random() % 64);
    ring::word(pair.direction(0).data).store(garbage);
    RingReader fresh(pair.direction(0));
    RingReader::Record record;
    switch (fresh.next(record)) {
      case RingReader::Found::nothing:
        EXPECT_EQ(garbage, 0U);
        break;
      case RingReader::Found::broken:
        ++broken;
        break;
      case RingReader::Found::record:
        EXPECT_LE(record.payload.size(), ring::most_payload(kRing));
        EXPECT_GE(record.payload.data(), pair.direction(0).data);
        EXPECT_LE(record.payload.data() + record.payload.size(), pair.direction(0).data + 2 * kRing);
        break;
    }
  }
  EXPECT_GT(broken, 10000);
}

TEST_F(ShmRingTest, AReaderThatConsumedTheFutureIsFoundOut) {
  pair.direction(0).control->head = 64;
  while (write(1, 1000)) {
  }
  EXPECT_FALSE(writer.broken()) << "64 bytes were written since";
  pair.direction(0).control->head = uint64_t{1} << 40;
  EXPECT_FALSE(write(1, 1000));
  EXPECT_TRUE(writer.broken());
  pair.direction(0).control->head = 0;
  EXPECT_FALSE(writer.fits(8)) << "trust is not given twice";
}

TEST(ShmRing, AttachRefusesWhatIsNotARing) {
  EXPECT_FALSE(RingPair::create(kRing + 4096).ok());
  EXPECT_FALSE(RingPair::create(1024).ok());
  auto pair = RingPair::create(kRing);
  ASSERT_TRUE(pair.ok());
  const auto memory = [&] { return Fd(fcntl(pair->memory(), F_DUPFD_CLOEXEC, 0)); };
  EXPECT_TRUE(RingPair::attach(memory(), kRing).ok());
  EXPECT_EQ(RingPair::attach(memory(), 2 * kRing).status().code(), Code::remote_error);
  EXPECT_EQ(RingPair::attach(memory(), 0).status().code(), Code::remote_error);
  EXPECT_EQ(RingPair::attach(memory(), uint64_t{1} << 63).status().code(), Code::remote_error);
  EXPECT_FALSE(RingPair::attach(Fd(memfd_create("unsealed", MFD_CLOEXEC)), kRing).ok());
  EXPECT_FALSE(RingPair::attach(Fd(), kRing).ok());
}

}  // namespace
}  // namespace isthmus::transport
