#pragma once

// Owners of OpenSSL objects, each with its own deleter.

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string_view>

namespace paceline::wire {

template <auto kFree>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using PrivateKeyHandle = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

// Reads from `text`, which must outlive it.
inline Bio ReaderOf(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace paceline::wire
