#include "paceline/wire/security/certificates.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/rand.h"
#include "openssl/ssl.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/openssl_objects.h"

namespace paceline::wire {
namespace {

using Request = std::unique_ptr<X509_REQ, Freer<X509_REQ_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;

constexpr long kSecondsBefore = 3600;
constexpr long kSecondsValid = 365L * 24 * 3600;

absl::Status Failed(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInternal, "OpenSSL: " + std::string(what) + " failed");
}

std::string TextOf(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(std::max(size, 0L))};
}
PrivateKeyHandle ReadKey(std::string_view pem) {
  return PrivateKeyHandle(PEM_read_bio_PrivateKey(ReaderOf(pem).get(), nullptr, nullptr, nullptr));
}
Certificate ReadCertificate(std::string_view pem) {
  return Certificate(PEM_read_bio_X509(ReaderOf(pem).get(), nullptr, nullptr, nullptr));
}
std::string WriteCertificate(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  return PEM_write_bio_X509(bio.get(), certificate) == 1 ? TextOf(bio) : std::string();
}

bool SetName(X509_NAME* name, const std::string& text) {
  return X509_NAME_add_entry_by_txt(
             name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.data()),
             static_cast<int>(std::min<size_t>(text.size(), 64)), -1, 0) == 1;
}

bool AddExtension(X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Version, serial number, validity, key: what every certificate needs.
absl::StatusOr<Certificate> Begin(EVP_PKEY* key) {
  Certificate certificate(X509_new());
  std::array<unsigned char, 16> serial = {};
  if (certificate == nullptr || RAND_bytes(serial.data(), serial.size()) != 1) {
    return Failed("a new certificate");
  }
  serial[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
  const bool numbered =
      BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get())) != nullptr;
  BN_free(number);
  if (!numbered || X509_set_version(certificate.get(), 2) != 1 ||
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kSecondsBefore) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kSecondsValid) == nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return Failed("a new certificate");
  }
  return certificate;
}

absl::StatusOr<std::string> DigestOf(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &size) != 1) return Failed("a digest");
  return Hex({digest.data(), size});
}

}  // namespace

std::string Hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

absl::StatusOr<PrivateKey> MakeKey() {
  const PrivateKeyHandle key(EVP_EC_gen("P-256"));
  const Bio bio(BIO_new(BIO_s_mem()));
  if (key == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed("a new key");
  }
  return PrivateKey{TextOf(bio)};
}

absl::StatusOr<KeyAndCertificate> MakeAuthority(std::string_view job_id) {
  ASSIGN_OR_RETURN(const PrivateKey pem, MakeKey());
  const PrivateKeyHandle key = ReadKey(pem.pem);
  ASSIGN_OR_RETURN(const Certificate certificate, Begin(key.get()));
  X509_NAME* name = X509_get_subject_name(certificate.get());
  if (!SetName(name, "paceline job " + std::string(job_id)) ||
      X509_set_issuer_name(certificate.get(), name) != 1 ||
      !AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(certificate.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) {
    return Failed("a new authority");
  }
  return KeyAndCertificate{.key_pem = pem.pem,
                           .certificate_pem = WriteCertificate(certificate.get())};
}

absl::StatusOr<std::string> MakeRequest(const PrivateKey& pem, std::string_view name) {
  const PrivateKeyHandle key = ReadKey(pem.pem);
  const Request request(X509_REQ_new());
  const Bio bio(BIO_new(BIO_s_mem()));
  if (key == nullptr || request == nullptr || X509_REQ_set_version(request.get(), 0) != 1 ||
      !SetName(X509_REQ_get_subject_name(request.get()), std::string(name)) ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1) {
    return Failed("a certificate request");
  }
  return TextOf(bio);
}

absl::StatusOr<std::string> SignRequest(const KeyAndCertificate& authority,
                                        const std::string& request_pem,
                                        const CertificateSubject& subject) {
  const Request request(
      PEM_read_bio_X509_REQ(ReaderOf(request_pem).get(), nullptr, nullptr, nullptr));
  EVP_PKEY* subject_key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  if (subject_key == nullptr || X509_REQ_verify(request.get(), subject_key) != 1) {
    return absl::InvalidArgumentError("not a certificate request signed by its own key");
  }
  const PrivateKeyHandle key = ReadKey(authority.key_pem);
  const Certificate ca = ReadCertificate(authority.certificate_pem);
  if (key == nullptr || ca == nullptr) return Failed("reading the authority");
  if (subject.names.empty()) return absl::InvalidArgumentError("a certificate for nobody");
  ASSIGN_OR_RETURN(const Certificate certificate, Begin(subject_key));
  using Role = CertificateSubject::Role;
  const bool is_server = subject.role == Role::kServer;
  const bool is_relay = subject.role == Role::kRelay;
  const bool is_operator = subject.role == Role::kOperator;
  const std::string usage = is_server  ? "serverAuth"
                            : is_relay ? "serverAuth,clientAuth"
                                       : "clientAuth";
  // Node names have no comma or line break (IsName), so they cannot add to the extension's text.
  std::string san;
  for (const std::string& name : subject.names) {
    if (is_operator) break;  // it acts for every node
    if (!san.empty()) san += ",";
    san += is_server ? "DNS:" + name : "URI:" + std::string(kNodeUri) + name;
  }
  if (is_operator) san = "URI:" + std::string(kOperatorUri);
  if (is_relay) san += ",DNS:" + std::string(kServerName) + ",URI:" + std::string(kRelayUri);
  if (!SetName(X509_get_subject_name(certificate.get()), subject.names.front()) ||
      X509_set_issuer_name(certificate.get(), X509_get_subject_name(ca.get())) != 1 ||
      !AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(certificate.get(), NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(certificate.get(), NID_ext_key_usage, usage) ||
      !AddExtension(certificate.get(), NID_subject_alt_name, san) ||
      X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) {
    return Failed("signing a certificate");
  }
  return WriteCertificate(certificate.get());
}

absl::StatusOr<std::string> CaFingerprint(std::string_view ca_pem) {
  const Certificate certificate = ReadCertificate(ca_pem);
  if (certificate == nullptr) return absl::InvalidArgumentError("not a certificate");
  return DigestOf(certificate.get());
}

}  // namespace paceline::wire
