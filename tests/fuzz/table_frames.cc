// Frames of tables: the first byte says which decoder gets the rest, or that all of it is a frame
// for a server. What decodes must encode to the same bytes, and no frame breaks a server's desk.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "paceline/ps/frame/table_frame.h"
#include "paceline/server/table_desk.h"
#include "parts.h"

namespace {

using paceline::fuzz::Demand;
namespace ps = paceline::ps;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void TryPush(std::span<const std::byte> body) {
  for (uint32_t count = 0; count < 4; ++count) {
    const auto push = ps::DecodePush(count, body);
    if (!push) continue;
    Demand(push->gradients.size() == count, "as many gradients as were told");
    for (const ps::SentGradient& one : push->gradients) {
      Demand(one.gradient.values.size() == one.gradient.keys.size() * one.dim, "whole rows");
    }
    Demand(ps::EncodePush(push->tag, push->gradients) == TextOf(body),
           "a push reads as it was written");
  }
}

void TryReads(std::span<const std::byte> body) {
  for (uint32_t count = 0; count < 4; ++count) {
    const auto reads = ps::DecodeReads(count, body);
    if (reads) Demand(ps::EncodeReads(*reads) == TextOf(body), "reads read as they were written");
  }
}

void TryOverlap(std::span<const std::byte> body) {
  const auto overlap = ps::DecodeOverlap(body);
  if (overlap) Demand(ps::EncodeOverlap(*overlap) == TextOf(body), "parts read as written");
}

void TryFrame(std::string_view bytes) {
  const auto all = std::as_bytes(std::span(bytes));
  const auto read = ps::ReadHead(all);
  if (!read) return;
  std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
  const auto body = all.subspan(ps::kTableHeadBytes);
  std::copy(body.begin(), body.end(), reinterpret_cast<std::byte*>(aligned.data()));
  ps::TableHead head = read->head;
  head.bytes = body.size();
  ps::Holding holding;
  const ps::TableSpec spec{.name = "t", .dim = 2};
  Demand(holding.Open(spec).ok(), "a table opens");
  paceline::server::TableDesk desk({.server = 0, .servers = 1}, &holding);
  bool is_greeted = true;
  const auto reply =
      desk.Handle(head, std::as_bytes(std::span(aligned)).first(body.size()), &is_greeted);
  Demand(ps::ReadHead(std::as_bytes(std::span(reply.frame))).has_value(), "the answer is a frame");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = paceline::fuzz::AsText(data + 1, size - 1);
  std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(aligned.data()));
  const auto body = std::as_bytes(std::span(aligned)).first(bytes.size());
  if (data[0] == 'p') TryPush(body);
  if (data[0] == 'r') TryReads(body);
  if (data[0] == 'o') TryOverlap(body);
  if (data[0] == 'f') TryFrame(bytes);
  return 0;
}
