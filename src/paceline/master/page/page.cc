#include "paceline/master/page/page.h"

#include <chrono>
#include <optional>
#include <utility>

#include "paceline/base/host_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"

namespace paceline::master {
namespace {

constexpr uint32_t kFeedCountMax = 64;      // records in one answer of the loop
constexpr uint64_t kMissedCountMax = 1000;  // more of them are a new picture

Instant SteadyNow() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return Instant::FromNanoseconds(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::function<bool(const HttpRequest&, HttpReply)> Sending(HttpAnswer answer) {
  return [answer = std::move(answer)](const HttpRequest&, const HttpReply& reply) {
    reply(answer);
    return true;
  };
}

}  // namespace

void Page::Open(Journal* journal, RecordSeq last) {
  durable_ = last.value();
  if (maker_.data != nullptr) desk_ = std::make_unique<PageDesk>(maker_, queue_, journal);
}

std::vector<HttpRoute> Page::Routes() {
  if (maker_.data == nullptr) return {};
  return {
      {.path = "/",
       .access = HttpAccess::kAnyone,
       .ask = Sending({.text = maker_.shell, .type = "text/html; charset=utf-8"})},
      {.path = "/api/session",
       .access = HttpAccess::kAnyone,
       .is_post = true,
       .ask = [this](const HttpRequest& request,
                     const HttpReply& reply) { return TradeCode(request, reply); }},
      {.path = "/api/page",
       .access = HttpAccess::kReader,
       .ask = [this](const HttpRequest&, const HttpReply& reply) { return SendData(reply); }},
      {.path = "/api/heat",
       .access = HttpAccess::kReader,
       .ask = [this](const HttpRequest& request,
                     const HttpReply& reply) { return SendHeat(request, reply); }},
      {.path = "/api/feed",
       .access = HttpAccess::kReader,
       .open = [this](const HttpRequest& request) { return OpenFeed(request); }},
  };
}

bool Page::Take(JournalEvent* event) {
  if (const auto* durable = std::get_if<RecordsDurable>(event)) durable_ = durable->last.value();
  auto* read = std::get_if<RecordsRead>(event);
  return read != nullptr && desk_ != nullptr && desk_->Take(read);
}

wire::PageLink Page::MakeLink() {
  if (http_ == nullptr || maker_.data == nullptr) return {};
  return {.http = http_->address(), .code = door_.MakeCode(SteadyNow()), .host = HostName()};
}

bool Page::TradeCode(const HttpRequest& request, const HttpReply& reply) {
  const std::optional<std::string> session = door_.Trade(Trimmed(request.body), SteadyNow());
  if (session.has_value()) {
    reply({.text = PrintJson(nlohmann::json{{"session", *session}}), .type = "application/json"});
  } else {
    reply({.code = 403,
           .text = "This link was used already, or is older than 60 s. `paceline open` prints a "
                   "new one.\n"});
  }
  return true;
}

bool Page::SendData(const HttpReply& reply) {
  desk_->Ask([reply](std::string data) {
    if (data.empty()) {
      reply({.code = 503, .text = "The master did not answer within 5 s.\n"});
    } else {
      reply({.text = std::move(data), .type = "application/json"});
    }
  });
  return true;
}

bool Page::SendHeat(const HttpRequest& request, const HttpReply& reply) {
  const auto known = ParseWhole<uint64_t>(request.last_event_id);
  return queue_->TryPost(
      HeatAsked{known.value_or(0), [reply](std::string heat) {
                  reply({.text = std::move(heat), .type = "application/octet-stream"});
                }});
}

std::string Page::OpenFeed(const HttpRequest& request) {
  const std::optional<uint64_t> known = ParseWhole<uint64_t>(request.last_event_id);
  Watch(known.value_or(durable_));
  AskPulse();
  // An event that is not durable here is one of a journal whose end was lost.
  const bool is_of_here = known.has_value() && *known <= durable_;
  const auto missed = is_of_here ? log_.After(*known) : std::nullopt;
  if (missed.has_value()) return Concat(":\n\n", *missed);
  return Concat("id: ", log_.newest(), "\nevent: snapshot\ndata: {}\n\n");
}

// `known` is the last event that the first reader has.
void Page::Watch(uint64_t known) {
  if (is_watching_) return;
  const uint64_t durable = durable_;
  const bool is_near = known <= durable && durable - known <= kMissedCountMax;
  log_.StartAfter(is_near ? known : durable);
  is_watching_ = queue_->TryPost(wire::ServerEvent(
      wire::EventsWanted{kPageWatch, log_.newest() + 1, kFeedCountMax, /*follow=*/true}));
}

void Page::AskPulse() {
  queue_->TryPost(PulseAsked{[this](std::string pulse) {
    http_->Post([this, pulse = std::move(pulse)] {
      http_->Broadcast(Concat("event: pulse\ndata: ", pulse, "\n\n"));
    });
  }});
}

void Page::Beat(size_t viewers) {
  if (viewers > 0) AskPulse();
  if (viewers > 0 || !is_over_ || has_left_) return;
  has_left_ = true;
  queue_->Post(wire::ServerEvent(wire::WatchEnded{kPageWatch}));
}

void Page::Take(const std::vector<wire::JobEvent>& events, bool is_last) {
  std::vector<std::pair<uint64_t, std::string>> frames;
  for (const wire::JobEvent& event : events) frames.emplace_back(event.seq, FeedFrame(event));
  http_->Post([this, frames = std::move(frames), is_last] { Send(frames, is_last); });
}

void Page::Send(const std::vector<std::pair<uint64_t, std::string>>& frames, bool is_last) {
  std::string text;
  for (const auto& [seq, frame] : frames) {
    log_.Add(seq, frame);
    text += frame;
  }
  if (is_last) text += "event: end\ndata: {}\n\n";
  is_over_ = is_over_ || is_last;
  http_->Broadcast(text);
  if (is_last) {
    Beat(http_->viewers());
  } else {
    queue_->TryPost(wire::ServerEvent(
        wire::EventsWanted{kPageWatch, log_.newest() + 1, kFeedCountMax, /*follow=*/true}));
  }
}

}  // namespace paceline::master
