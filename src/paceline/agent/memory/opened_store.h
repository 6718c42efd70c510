#pragma once

// One thread's store. The last one stays open, because a job has only one.

#include <memory>
#include <string>
#include <utility>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/stores.h"

namespace paceline::agent {

class OpenedStore {
 public:
  explicit OpenedStore(ckpt::StoreHost host) : host_(std::move(host)) {}

  // The store of checkpoints in `directory`. Valid until the next call.
  Result<ckpt::Store*> At(const std::string& directory) {
    if (store_ == nullptr || directory_ != directory) {
      store_.reset();
      ASSIGN_OR_RETURN(store_, ckpt::OpenStore(directory, host_));
      directory_ = directory;
    }
    return store_.get();
  }

 private:
  const ckpt::StoreHost host_;
  std::string directory_;  // of store_
  std::unique_ptr<ckpt::Store> store_;
};

}  // namespace paceline::agent
