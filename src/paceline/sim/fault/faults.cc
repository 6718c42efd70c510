#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/fault.h"
#include "paceline/sim/options.h"

namespace paceline::sim {
namespace {

bool HasHosts(const Options& options) { return !options.local_platform; }
bool HasCheckpointer(const Options& options) { return options.saves.is_used; }
bool SavesOnHosts(const Options& options) { return HasCheckpointer(options) && HasHosts(options); }
bool HasSmallerHosts(const Options& options) {
  return options.late_node_count > 0 && options.spec.nproc_per_node > 1;
}
bool HasSizes(const Options& options) {
  return options.spec.nodes_min + options.spec.unit <= options.spec.nodes_max;
}
bool HasChecks(const Options& options) {
  return options.checks.is_used && !options.spec.has_wish();
}
bool HasLinks(const Options& options) { return HasChecks(options) && options.checks.has_links; }
bool SavesSometimes(const Options& options) { return options.checkpoint_every != 1; }

constexpr Fault kFaults[] = {
    // ranks
    {"crash_rank", "a rank dies by an exception, an exit or a signal", CrashRank},
    {"freeze_rank", "a rank freezes for a while", FreezeRank},
    {"script_bug", "the script fails at one step in every attempt", ScriptBug, SavesSometimes},
    {"port_taken", "the port of the next stores is taken", PortTaken},
    {"stalled_start", "the disk of a host hangs, so processes that start there do not get to run",
     StalledStart},
    {"refused_start", "a starter takes long for each rank, and then refuses to start it",
     RefusedStart},
    // agents
    {"kill_starter", "the starter dies, and its ranks live on", KillStarter},
    {"kill_agent", "an agent dies alone", KillAgent},
    {"freeze_agent", "an agent freezes, and its ranks go on", FreezeAgent},
    {"leave_node", "a node is asked to leave on its own host", LeaveNode, HasHosts},
    {"second_agent", "a second agent uses the name of a first one", SecondAgent, HasHosts},
    {"signals_twice", "every process of a host gets SIGTERM, twice in a short time", SignalsTwice},
    {"launcher_dies", "a launcher dies, so agents and master of its host are not restarted",
     LauncherDies},
    // nodes
    {"kill_node", "a node dies with all its processes", KillNode},
    {"reboot", "a host reboots, quickly or slowly", Reboot, HasHosts},
    {"freeze_node", "all processes of a node freeze for a while", FreezeNode},
    {"flapping_node", "a node comes and goes several times", FlappingNode},
    {"spare_dies", "a node without a seat dies", SpareDies},
    {"late_joiner", "a node joins late", LateJoiner},
    {"small_host", "a host joins late with fewer ranks than the job asks of a node", SmallHost,
     HasSmallerHosts},
    // network
    {"partition_one_way", "messages of one direction do not arrive", PartitionOneWay},
    {"partition_two_way", "some nodes are cut off from the master", PartitionTwoWay},
    {"packet_loss", "a link loses packets", PacketLoss},
    {"duplicates", "messages arrive twice, or again on a dead connection", Duplicates},
    {"reordering", "messages of different nodes overtake each other", Reordering},
    {"blinking_link", "a node loses the master and all nodes for seconds, again and again",
     BlinkingLink},
    {"slow_link", "a link delays everything, up to a second", SlowLink},
    // master
    {"crash_master", "the master dies", CrashMaster},
    {"crash_master_at_record",
     "the master dies when a record is durable and its effects have not run", CrashMasterAtRecord},
    {"reboot_master_host", "the host of the master reboots, and a node with it", RebootMasterHost,
     HasHosts},
    {"freeze_master", "the master freezes for a while", FreezeMaster},
    {"clock_step", "the wall clock is set while the master restarts", ClockStep},
    {"full_disk", "the disk under the journal is full for a while", FullDisk},
    {"stop_request", "the user asks for the end", StopRequest},
    // checkpoints
    {"writer_dies_saving", "a rank dies while it fills a slot of its arena", WriterDiesSaving,
     HasCheckpointer},
    {"flipped_image", "a bit of an image in memory is flipped", FlippedImage, HasCheckpointer},
    {"zombie_save", "a rank of a world that has ended saves once more", ZombieSave,
     HasCheckpointer},
    {"giver_dies", "a host dies while it sends an image to another one", GiverDies, SavesOnHosts},
    {"full_storage", "the storage of checkpoints is full for a while", FullStorage,
     HasCheckpointer},
    {"stalled_storage", "the storage of checkpoints hangs for a while", StalledStorage,
     HasCheckpointer},
    {"storage_outage", "the storage of checkpoints cannot be reached for a while", StorageOutage,
     HasCheckpointer},
    {"torn_shard", "a shard in storage is torn, or a bit of it is flipped", TornShard,
     HasCheckpointer},
    {"lost_shard", "a shard in storage disappears", LostShard, HasCheckpointer},
    // masters of several terms
    {"master_host_lost", "the host of the master is lost, and another one starts the next master",
     MasterHostLost, HasHosts, /*lasts=*/false, FaultFamily::kTerms},
    {"old_master_returns", "a master that was replaced had only been cut off, and comes back",
     OldMasterReturns, HasHosts, /*lasts=*/false, FaultFamily::kTerms},
    {"lost_copies", "nodes lose their copies of the journal", LostCopies, HasHosts,
     /*lasts=*/false, FaultFamily::kTerms},
    // a platform
    {"notice", "a platform tells that it takes a node away, and does so", TakeAway, nullptr,
     /*lasts=*/false, FaultFamily::kPlatform},
    // a user
    {"bad_node",
     "a host comes that is broken or has half the speed, or becomes so while it reboots", BadNode,
     HasChecks, /*lasts=*/false, FaultFamily::kUser},
    {"dead_port", "a host comes, or comes back from a reboot, to which no other host can connect",
     DeadPort, HasLinks, /*lasts=*/false, FaultFamily::kUser},
    {"resize", "a user makes the job smaller or larger, at once or when it costs no step", Resize,
     HasSizes, /*lasts=*/false, FaultFamily::kUser},
    // memory
    {"leak", "a rank uses more memory each second, for a while", Leak, nullptr, /*lasts=*/false,
     FaultFamily::kMemory},
    {"need_memory", "a rank suddenly needs more memory than its node has", NeedMemory, nullptr,
     /*lasts=*/false, FaultFamily::kMemory},
    // never healed
    {"lasting_silence", "nodes freeze, are cut off or stop sending, for ever", LastingSilence,
     nullptr, /*lasts=*/true},
};

}  // namespace

std::span<const Fault> AllFaults() { return kFaults; }

size_t FaultIndex(std::string_view name) {
  size_t index = 0;
  for (const Fault& fault : kFaults) {
    if (fault.name == name) break;
    ++index;
  }
  return index;
}

}  // namespace paceline::sim
