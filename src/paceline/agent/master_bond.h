#pragma once

// What a node keeps of the masters that it has met: the highest term, and the copy of the journal
// that it has been sent. Decided by core/succession/term_guard.h and
// core/succession/journal_copy.h. The term stands in agent.json, too; the copy lives as long as the
// agent.

#include <string>
#include <utility>

#include "paceline/base/log.h"
#include "paceline/core/succession/journal_copy.h"
#include "paceline/core/succession/term_guard.h"
#include "paceline/wire/messages.h"

namespace paceline::agent {

class MasterBond {
 public:
  explicit MasterBond(uint64_t term) : guard_(term) {}

  uint64_t term() const { return guard_.seen(); }

  // Returns false if the master has a lower term than one known before. The caller then closes the
  // stream.
  bool Admit(const wire::Welcome& welcome) {
    if (guard_.Admit(welcome.term)) return true;
    LogWarning("old_master", {{"term", welcome.term}, {"known", guard_.seen()}});
    return false;
  }

  // A rescue has begun: masters of lower terms are old ones from now on.
  void Raise(uint64_t term) { (void)guard_.Admit(term); }

  wire::Register Registration(NodeReport report) const {
    report.term = guard_.seen();
    return {std::move(report), copy_.offer()};
  }

  wire::JournalHeld Take(wire::JournalBytes piece) {
    const bool is_too_much = piece.from + piece.content.size() > kCopyBytesMax;
    const uint64_t term = copy_.offer().term;
    if (!is_too_much) copy_.Take(std::move(piece));
    if (copy_.offer().term != term) {
      LogInfo("journal_copied", {{"term", copy_.offer().term}, {"bytes", copy_.taken()}});
    }
    return {copy_.taken()};
  }

  // As much as goes into one message.
  wire::JournalBytes Read(const wire::JournalWanted& wanted) const {
    constexpr uint64_t kPieceBytes = 128 << 10;
    return copy_.Read(wanted.from, kPieceBytes);
  }

 private:
  // A master sends 64 MiB, and one record more.
  static constexpr uint64_t kCopyBytesMax = 80 << 20;

  core::TermGuard guard_;
  core::JournalCopy<std::string> copy_;
};

}  // namespace paceline::agent
