// SPDX-License-Identifier: Apache-2.0
// Opens one proven stream to a peer: tries its addresses in turn, again and again, until one answers and proves the key. Used by Tcp.
// Gives up at the setup deadline with the last cause and every address that was tried.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/context.h"
#include "transport/tcp/greeting.h"

namespace isthmus::transport {

class Dialer {
 public:
  /// `hello.process` is this process; `peer` is who must answer.
  Dialer(TcpContext& context, std::vector<Address> addresses, const wire::Hello& hello, const ProcessId& peer, const Key& key);

  /// Starts, watches over and ends attempts; the first call starts the clock. An error means that the dialer has given up.
  Status poll(TimeNs now);
  [[nodiscard]] bool done() const { return greeting_ != nullptr && greeting_->done(); }
  /// The proven stream, once done(); ends the dialer.
  std::unique_ptr<Stream> take();

 private:
  Status start(TimeNs now);
  /// Why the attempt in progress has failed, if it has.
  [[nodiscard]] Status trouble(TimeNs now) const;
  void end_attempt(TimeNs now, const Status& why);

  TcpContext& context_;
  std::vector<Address> addresses_;
  wire::Hello hello_;
  ProcessId peer_;
  Key key_;
  std::unique_ptr<Greeting> greeting_;
  size_t attempts_ = 0;
  TimeNs deadline_ = kNever;
  TimeNs next_attempt_at_ = 0;
  TimeNs pause_ns_;
  Status last_failure_;
};

}  // namespace isthmus::transport
