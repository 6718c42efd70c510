#pragma once

// NVIDIA's GPUs, through the driver that is loaded in the process anyway. It is opened by its name,
// so nothing is needed to build this, and nothing is missing where there is no GPU.

#include <memory>
#include <string>

#include "paceline/base/result.h"
#include "paceline/client/device.h"

namespace paceline::client {

// The device that the calling thread works with. kNotFound: there is no such driver, it lacks a
// function (the message names it), or this thread has used no device yet. `library` is the
// driver's, "libcuda.so.1".
Result<std::unique_ptr<Device>> OpenCudaDevice(const std::string& library);

}  // namespace paceline::client
