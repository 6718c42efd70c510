#pragma once

// NVIDIA GPUs, through the driver that the framework has loaded. It is opened by name, so neither
// the build nor a machine without a GPU needs it.

#include <memory>
#include <string>

#include "paceline/base/result.h"
#include "paceline/client/device.h"

namespace paceline::client {

// The calling thread's current device. kNotFound: there is no driver, it lacks a function (the
// message names it), or this thread has used no device yet. `library` is the driver's name,
// "libcuda.so.1".
Result<std::unique_ptr<Device>> OpenCudaDevice(const std::string& library);

}  // namespace paceline::client
