// job.json, info.json and the entries of the registry, which commands read to find jobs.

#include "paceline/base/test_dir.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/master/job_file.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace cli = paceline::cli;
  static const paceline::TestDir folder(paceline::TestDir::InMemory());
  const std::string_view text = paceline::fuzz::AsText(data, size);
  const std::string job = folder.Write("job.json", text);
  folder.Write("info.json", text);
  const auto place = cli::ReadJobPlace(folder.path());
  if (place.ok()) (void)place->is_running();
  const auto card = cli::ReadJobCard(folder.path());
  if (card.ok()) (void)cli::FormatJobCard(*card);
  (void)cli::RunDirOfRegistryEntry(job);
  (void)cli::RunDirOfEntry(std::string(text));
  (void)cli::StarterPid(folder.path());
  (void)paceline::master::ReadMasterAddress(folder.path()).ok();
  return 0;
}
