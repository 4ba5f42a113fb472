#include "base/network/tls_relay.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/network/evp_digest.h"

namespace ftune {
namespace {

constexpr int64_t kOneDay = int64_t{24} * 60 * 60;
constexpr size_t kMostAtOnce = size_t{1} << 14;  // bytes: one record

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Session = std::unique_ptr<SSL, decltype(&SSL_free)>;

// The first of this thread's errors, which are forgotten.
std::string LastError() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  if (error == 0) return "the connection has ended";
  const char* reason = ERR_reason_error_string(error);
  return reason == nullptr ? "TLS failed" : reason;
}

std::string Fingerprint(const X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  if (size <= 0) return "";
  EvpDigest digest(EVP_sha256());
  digest.Add(std::string_view(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)));
  OPENSSL_free(bytes);
  return digest.Finish();
}

std::string Text(BIO& memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&memory, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : "";
}

// Accepts the one certificate whose fingerprint `expected` points to.
int IsExpected(X509_STORE_CTX* chain, void* expected) {
  const X509* const certificate = X509_STORE_CTX_get0_cert(chain);
  const bool same =
      certificate != nullptr && Fingerprint(certificate) == *static_cast<const std::string*>(expected);
  if (!same) X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REJECTED);
  return same ? 1 : 0;
}

// Bytes on their way from one socket to the other.
class Relay {
 public:
  Relay(SSL& tls, int encrypted, int plain) : tls_(tls), encrypted_(encrypted), plain_(plain) {}

  std::string Run() {
    while (!done_) {
      const bool out = PassOut(), in = PassIn();
      if (!out && !in && !done_) Wait();
    }
    if (why_.empty()) SSL_shutdown(&tls_);
    return why_;
  }

 private:
  // Each passes on what it can without waiting; whether that was anything.
  bool PassOut() {
    bool moved = false;
    if (to_encrypt_.empty() && !plain_ended_) {
      to_encrypt_.resize(kMostAtOnce);
      const ssize_t count = recv(plain_, to_encrypt_.data(), to_encrypt_.size(), MSG_DONTWAIT);
      plain_ended_ = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
      to_encrypt_.resize(count > 0 ? static_cast<size_t>(count) : 0);
      moved = count > 0;
    }
    if (!to_encrypt_.empty()) {
      const int written = SSL_write(&tls_, to_encrypt_.data(), static_cast<int>(to_encrypt_.size()));
      if (written <= 0) {
        NoteWhy(written, writes_);
        return moved;
      }
      to_encrypt_.clear();
      return true;
    }
    if (plain_ended_) done_ = true;
    return moved;
  }

  bool PassIn() {
    bool moved = false;
    if (to_plain_.empty() && !done_) {
      to_plain_.resize(kMostAtOnce);
      const int count = SSL_read(&tls_, to_plain_.data(), static_cast<int>(to_plain_.size()));
      to_plain_.resize(count > 0 ? static_cast<size_t>(count) : 0);
      if (count <= 0) {
        NoteWhy(count, reads_);
        return false;
      }
      moved = true;
    }
    if (!to_plain_.empty()) {
      const ssize_t sent = send(plain_, to_plain_.data(), to_plain_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) to_plain_.erase(0, static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) done_ = true;
      moved = moved || sent > 0;
    }
    return moved;
  }

  // For what the session waits, or that it has ended.
  void NoteWhy(int result, short& waits_for) {
    const int error = SSL_get_error(&tls_, result);
    waits_for = error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
    done_ = true;
    // An end without a last word is an end all the same: what is carried has lengths of its own.
    if (error == SSL_ERROR_SSL && SSL_is_init_finished(&tls_) == 0) why_ = LastError();
    ERR_clear_error();
  }

  void Wait() {
    // What has come is read when what came before has gone.
    const short reads = to_plain_.empty() ? reads_ : 0;
    pollfd waits[] = {{.fd = encrypted_, .events = static_cast<short>(reads | writes_)},
                      {.fd = plain_, .events = 0}};
    if (to_encrypt_.empty() && !plain_ended_) waits[1].events |= POLLIN;
    if (!to_plain_.empty()) waits[1].events |= POLLOUT;
    // An end is told whether asked for or not, and would wake this again and again while the other is busy.
    if (waits[1].events == 0) waits[1].fd = -1;
    poll(waits, 2, -1);
    reads_ = POLLIN;
    writes_ = 0;
  }

  SSL& tls_;
  int encrypted_, plain_;
  std::string to_encrypt_, to_plain_;
  short reads_ = POLLIN, writes_ = 0;  // what the session waits for, when it reads and when it writes
  bool plain_ended_ = false;
  bool done_ = false;
  std::string why_;
};

Context NewContext(const SSL_METHOD* method) {
  Context context(SSL_CTX_new(method), &SSL_CTX_free);
  if (!context) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  // A buffer that is written again may have moved meanwhile.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

std::string RelayWith(SSL_CTX& context, bool serves, int encrypted, int plain) {
  ERR_clear_error();
  const Session session(SSL_new(&context), &SSL_free);
  if (!session || SSL_set_fd(session.get(), encrypted) != 1) return LastError();
  if (serves) {
    SSL_set_accept_state(session.get());
  } else {
    SSL_set_connect_state(session.get());
  }
  return Relay(*session, encrypted, plain).Run();
}

}  // namespace

std::optional<TlsIdentity> MakeTlsIdentity() {
  const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const Certificate certificate(X509_new(), &X509_free);
  if (!key || !certificate) return std::nullopt;
  X509_set_version(certificate.get(), X509_VERSION_3);
  uint32_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) != 1) return std::nullopt;
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial);
  // Who knows the fingerprint looks at nothing else; clocks of hosts may differ.
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kOneDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3650 * kOneDay);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("ftune"), -1,
                             -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_set_pubkey(certificate.get(), key.get());
  if (X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) return std::nullopt;
  const Memory certificate_text(BIO_new(BIO_s_mem()), &BIO_free);
  const Memory key_text(BIO_new(BIO_s_mem()), &BIO_free);
  PEM_write_bio_X509(certificate_text.get(), certificate.get());
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return TlsIdentity{.certificate = Text(*certificate_text),
                     .key = Text(*key_text),
                     .fingerprint = Fingerprint(certificate.get())};
}

std::string RelayTlsAsServer(const TlsIdentity& identity, int encrypted, int plain) {
  const Context context = NewContext(TLS_server_method());
  const Memory certificate_text(
      BIO_new_mem_buf(identity.certificate.data(), static_cast<int>(identity.certificate.size())), &BIO_free);
  const Memory key_text(BIO_new_mem_buf(identity.key.data(), static_cast<int>(identity.key.size())),
                        &BIO_free);
  const Certificate certificate(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr),
                                &X509_free);
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  if (!context || !certificate || !key) return LastError();
  if (SSL_CTX_use_certificate(context.get(), certificate.get()) != 1) return LastError();
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) return LastError();
  return RelayWith(*context, /*serves=*/true, encrypted, plain);
}

std::string RelayTlsAsClient(const std::string& fingerprint, int encrypted, int plain) {
  const Context context = NewContext(TLS_client_method());
  if (!context) return LastError();
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  std::string expected = fingerprint;
  SSL_CTX_set_cert_verify_callback(context.get(), &IsExpected, &expected);
  return RelayWith(*context, /*serves=*/false, encrypted, plain);
}

}  // namespace ftune
