// _native.Layout: the file that a rank's boxes make up.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/client/image_reader.h"

namespace paceline::bindings {

struct Layout {
  ckpt::Image image;
  std::vector<size_t> order;  // image.boxes[i] is the caller's box order[i]
};

}  // namespace paceline::bindings
