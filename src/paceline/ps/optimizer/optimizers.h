#pragma once

// The optimizers, a function each. A new one is a file here, a line below and a row in
// optimizers.cc.

#include "paceline/ps/optimizer/optimizer.h"

namespace paceline::ps {

Optimizer Sgd();
Optimizer Adagrad();
Optimizer Adam();

}  // namespace paceline::ps
