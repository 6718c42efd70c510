#pragma once

// One thread's store: the one that was asked for last stays open, as a job has one.

#include <memory>
#include <string>
#include <utility>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/stores.h"

namespace paceline::agent {

class OpenedStore {
 public:
  explicit OpenedStore(ckpt::StoreHost host) : host_(std::move(host)) {}

  // Of checkpoints in `directory`. Valid until another one is asked for.
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
