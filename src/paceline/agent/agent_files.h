#pragma once

// An agent's paths in a run directory; docs/formats/run_dir.md.

#include <cstdint>
#include <string>

#include "paceline/base/fnv.h"
#include "paceline/base/hex.h"
#include "paceline/base/text.h"

namespace paceline::agent {

// Limit of a rank's error record: its traceback and its last known state.
inline constexpr size_t kErrorRecordBytesMax = 1 << 20;

struct AgentFiles {
  std::string run_dir;
  std::string node;
  std::string checkpoint_socket =
      {};                         // where this node's ranks find the keeper of their checkpoints
  std::string lease_socket = {};  // socket of the leases on data
  // The progress page, which the ranks map. In memory, because the kernel stops a rank that stores
  // to a page of a file whose disk does not answer. Empty: in the run directory.
  std::string page_in_memory = {};

  // Tells files in memory of two agents of one node apart, which have two run directories.
  std::string Mark() const { return Hex(Fnv1a(run_dir)); }
  std::string NodeDir() const { return Concat(run_dir, "/nodes/", node); }
  std::string PageInRunDir() const { return Concat(NodeDir(), "/page"); }
  // The page of a job that has ended.
  std::string LastPage() const { return Concat(NodeDir(), "/page.last"); }
  std::string Page() const { return page_in_memory.empty() ? PageInRunDir() : page_in_memory; }
  std::string AgentJson() const { return Concat(NodeDir(), "/agent.json"); }
  std::string ProblemJson() const { return Concat(NodeDir(), "/problem.json"); }
  std::string LogDir() const { return Concat(run_dir, "/logs/", node); }
  std::string AgentLog() const { return Concat(LogDir(), "/agent.log"); }
  std::string ErrorDir() const { return Concat(run_dir, "/errors/", node); }
  std::string ErrorRecord(uint64_t generation, uint32_t rank) const {
    return Concat(ErrorDir(), "/g", generation, "-rank", rank, ".json");
  }
  // Written by torch's own @record, in torch's form.
  std::string TorchErrorFile(uint64_t generation, uint32_t rank) const {
    return Concat(ErrorDir(), "/g", generation, "-rank", rank, ".torch.json");
  }
  std::string Spec() const { return Concat(run_dir, "/spec.json"); }
  std::string JobJson() const { return Concat(run_dir, "/job.json"); }
  std::string Token() const { return Concat(run_dir, "/token"); }
  std::string TlsDir() const { return Concat(run_dir, "/tls"); }
};

}  // namespace paceline::agent
