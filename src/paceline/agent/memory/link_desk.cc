#include "paceline/agent/memory/link_desk.h"

#include <pthread.h>

#include <string>
#include <utility>

#include "paceline/agent/memory/link_probe.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"

namespace paceline::agent {

LinkDesk::~LinkDesk() {
  if (thread_.joinable()) thread_.join();
}

void LinkDesk::Try(LinkTry order) {
  if (thread_.joinable()) {
    waiting_ = std::move(order);
    return;
  }
  Begin(order);
}

void LinkDesk::Begin(const LinkTry& order) {
  if (tls_ == nullptr) {
    auto made = wire::BulkTls::Make(credentials_);
    if (!made.ok()) {
      return tell_({order.round, order.peer, 0, std::string(Text(made.status()))});
    }
    tls_ = *std::move(made);
  }
  thread_ = std::thread([this, order, alive = std::weak_ptr<bool>(is_alive_)] {
    const LinkTested tested = ProbeLink(order, credentials_, *tls_);
    reactor_.Post([this, alive, tested] {
      if (!alive.expired()) OnEnded(tested);
    });
  });
  ::pthread_setname_np(thread_.native_handle(), "link");
}

void LinkDesk::OnEnded(const LinkTested& tested) {
  thread_.join();
  LogInfo("link_tested", {{"peer", tested.peer},
                          {"round", tested.round},
                          {"mb_s", static_cast<int64_t>(tested.gb_s * 1000)},
                          {"problem", tested.problem}});
  tell_(tested);
  if (!waiting_.has_value()) return;
  const LinkTry next = *std::move(waiting_);
  waiting_.reset();
  Begin(next);
}

}  // namespace paceline::agent
