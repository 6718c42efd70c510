#include "paceline/sim/swarm/trace.h"

#include <cinttypes>

namespace paceline::sim {

void Trace::Mix(uint64_t word) {
  hash_ ^= word;
  hash_ *= 0x0000'0100'0000'01b3ULL;
  hash_ ^= hash_ >> 32;
}

void Trace::Mix(std::string_view text) {
  uint64_t word = text.size();
  for (char c : text) word = (word ^ static_cast<unsigned char>(c)) * 0x0000'0100'0000'01b3ULL;
  Mix(word);
}

void Trace::Add(Instant at, std::string_view who, std::string_view what, uint64_t number,
                std::string_view text) {
  Mix(static_cast<uint64_t>(at.nanoseconds()));
  Mix(who);
  Mix(what);
  Mix(number);
  if (out_ == nullptr) return;
  const int64_t us = at.nanoseconds() / 1'000;
  std::fprintf(out_, "%6" PRId64 ".%06" PRId64 "  %-9.*s %-16.*s %8" PRIu64 "  %.*s\n",
               us / 1'000'000, us % 1'000'000, static_cast<int>(who.size()), who.data(),
               static_cast<int>(what.size()), what.data(), number, static_cast<int>(text.size()),
               text.data());
}

}  // namespace paceline::sim
