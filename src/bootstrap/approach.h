// SPDX-License-Identifier: Apache-2.0
// Reaching somebody who listens at any of some addresses: all are tried side by side, again and again, until one answers with a proof.
// The counterpart of a Reception; used by the rendezvous' members and by contributors. It has no deadline of its own and never fails: its
// owner gives up, and failures() says why.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "bootstrap/link.h"
#include "bootstrap/surroundings.h"
#include "transport/interface.h"
#include "wire/handshake.h"

namespace isthmus::bootstrap {

class Approach {
 public:
  /// `mine` is what this side claims; who answers must have rank -1. `whom` is their name in messages ("root").
  Approach(const Surroundings& surroundings, std::span<const transport::Address> to, const wire::Hello& mine, const Key& key,
           std::string whom, const transport::StreamOptions& stream_options = {});

  /// A proven stream, once there is one; null: not yet. All other attempts are dropped then.
  std::unique_ptr<transport::Stream> poll(TimeNs now);
  /// The stream turned out to be worthless: after a pause, from the beginning.
  void again(const Status& why, TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  /// When poll() would try an address anew; kNever while all are being tried.
  [[nodiscard]] TimeNs due() const;
  /// "; ADDRESS: why" for each, and advice where one does not answer at all.
  [[nodiscard]] std::string failures() const;

 private:
  struct Attempt {
    transport::Address to;
    std::unique_ptr<transport::Stream> stream;
    std::optional<wire::Handshake> handshake;
    TimeNs give_up_at = 0, retry_at = 0;
    int failures = 0;
    std::string last_error = "no answer";
  };

  /// True once this attempt's peer has proved to be the one.
  Result<bool> pursue(Attempt& attempt, TimeNs now);
  Status connect(Attempt& attempt, TimeNs now);
  void fail(Attempt& attempt, const Status& why, TimeNs now);

  Surroundings surroundings_;
  wire::Hello mine_;
  Key key_;
  std::string whom_;
  transport::StreamOptions stream_options_;
  CounterRng jitter_;
  std::vector<Attempt> attempts_;
};

}  // namespace isthmus::bootstrap
