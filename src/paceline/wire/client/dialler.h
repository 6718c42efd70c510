#pragma once

// Internal to wire: the channel for a stream's next attempt, along a Route.

#include <memory>
#include <string>
#include <utility>

#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/client/channel.h"
#include "paceline/wire/client/route.h"

namespace paceline::wire {

// Used by one attempt at a time, as ClientStream's hooks are.
class Dialler {
 public:
  Dialler(Route route, Credentials credentials)
      : route_(std::move(route)), credentials_(std::move(credentials)) {}

  // Errors as of Dial.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Next() {
    if (channel_ == nullptr) {
      ASSIGN_OR_RETURN(channel_, Dial(route_.address(), credentials_, route_.is_relay()));
    }
    return channel_;
  }
  void Opened() { is_open_ = true; }
  // A relay that opens a stream only to report that it is full counts as failed.
  void Broken(const grpc::Status& status) {
    if (!ConnectsAgain(route_.address(), credentials_)) channel_ = nullptr;
    const bool is_full = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    if (std::exchange(is_open_, false) && !is_full) return;
    const std::string before = route_.address();
    route_.Failed();
    if (route_.address() != before) channel_ = nullptr;
  }

 private:
  Route route_;
  const Credentials credentials_;
  std::shared_ptr<grpc::Channel> channel_;  // owners: this, and the calls on it
  bool is_open_ = false;
};

}  // namespace paceline::wire
