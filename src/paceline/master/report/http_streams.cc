#include "paceline/master/report/http_streams.h"

#include <algorithm>

#include "event2/buffer.h"
#include "event2/bufferevent.h"
#include "event2/http.h"

namespace paceline::master {
namespace {

// libevent closes a connection on which nothing was sent or could be sent for so long.
constexpr int kStillSecondsMax = 60;

void SendChunk(evhttp_request* request, const std::string& text) {
  evbuffer* chunk = evbuffer_new();
  evbuffer_add(chunk, text.data(), text.size());
  evhttp_send_reply_chunk(request, chunk);
  evbuffer_free(chunk);
}

}  // namespace

void HttpStreams::Open(evhttp_request* request, const std::string& first) {
  evhttp_connection* connection = evhttp_request_get_connection(request);
  evhttp_connection_set_timeout(connection, kStillSecondsMax);
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Content-Type", "text/event-stream");
  evhttp_add_header(headers, "Cache-Control", "no-store");
  evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
  evhttp_send_reply_start(request, 200, "OK");
  open_.push_back({request, connection});
  SendChunk(request, first);
}

void HttpStreams::Send(const std::string& text, size_t backlog_max) {
  std::vector<evhttp_connection*> behind;
  for (const Stream& stream : open_) {
    evbuffer* unsent = bufferevent_get_output(evhttp_connection_get_bufferevent(stream.connection));
    if (evbuffer_get_length(unsent) + text.size() > backlog_max) {
      behind.push_back(stream.connection);
    } else {
      SendChunk(stream.request, text);
    }
  }
  // Calls the function for the end of the connection, which calls Ended.
  for (evhttp_connection* connection : behind) evhttp_connection_free(connection);
}

bool HttpStreams::Ended(evhttp_connection* connection) {
  const auto it = std::find_if(open_.begin(), open_.end(), [connection](const Stream& stream) {
    return stream.connection == connection;
  });
  if (it == open_.end()) return false;
  evhttp_request* request = it->request;
  open_.erase(it);
  // libevent keeps a request that is still being answered when the client leaves, for its owner to
  // end. It frees the others itself.
  if (evhttp_request_get_connection(request) == nullptr) evhttp_send_reply_end(request);
  return true;
}

}  // namespace paceline::master
