#pragma once

// The catalogue of devices, and clusters written in a line: "H100-80G:64,A100-80G:128".

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "paceline/base/result.h"
#include "paceline/model/plan.h"
#include "paceline/plan/execution.h"

namespace paceline::plan {

// The shares of a peak and of the memory that programs reach. A measurement (`paceline.parallel`)
// replaces them.
inline constexpr double kReachedFlops = 0.6;
inline constexpr double kReachedBandwidth = 0.8;
inline constexpr double kReachedLink = 0.7;

// Peak values of the manufacturer's data sheet, without sparsity.
struct DeviceRow {
  std::string_view name;
  double half_flops = 0;  // bf16, or fp16 where there is no bf16
  double full_flops = 0;  // fp32 without tensor cores
  double bandwidth = 0;   // bytes a second
  uint64_t gibibytes = 0;
  double link = 0;  // bytes a second of one device to others of its node, in one direction
  std::string_view source;
  bool has_bf16 = true;
  // The share of the peak that products of a framework with layers of its own reach.
  double own_reached = kReachedFlops;
};

std::span<const DeviceRow> DeviceCatalogue();

// The type of this name, in any case and with or without a last B ("h100-80gb"). Where the name
// leaves the memory out ("A100"), the variant with the most memory. Null: there is none.
const DeviceRow* FindDevice(std::string_view name);

// The type that a driver names so, as "NVIDIA H100 80GB HBM3" and "Tesla V100-SXM2-16GB". Null:
// there is none. Cards for PCIe and parts of a device (MIG) have other peaks than the catalogue's.
const DeviceRow* DeviceOfProgram(std::string_view name);

// The peak of a type at this precision, in operations a second; its name is the catalogue's or the
// driver's. None for others, such as processors.
std::optional<double> PeakFlops(std::string_view name, std::string_view precision);

struct ClusterWishes {
  std::string precision = "bf16";
  uint32_t node = 8;      // devices of a node
  double network = 50e9;  // bytes a second of one device to other nodes, at best
  const Execution* execution = &OurExecution();
};

// kInvalid: says which part of the line is wrong, and lists the known types.
Result<Cluster> ClusterFromLine(std::string_view line, const ClusterWishes& wishes);

}  // namespace paceline::plan
