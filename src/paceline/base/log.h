#pragma once

// Log lines of the hosts: one event a line, its name first, then key=value pairs.
//
//   2026-01-31T09:00:00.123456Z info rank_exited node=node0 rank=3 why="exit code 1"
//
// For master, agent and the command line only: pure code returns notes, which its host logs. A
// decision is logged once. An error is logged once, where it is handled. Thread-safe.

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "paceline/base/instant.h"
#include "paceline/base/strong_id.h"

namespace paceline {

enum class LogLevel { kInfo, kWarning, kError };

// One pair. The value is text, a number, true/false, an id, a duration or a status.
struct LogField {
  template <class T>
  requires std::integral<T> || std::floating_point<T> LogField(std::string_view key, T value)
      : key(key), value(std::to_string(value)) {}
  template <class Tag, class Rep>
  LogField(std::string_view key, StrongId<Tag, Rep> id) : key(key), value(ToString(id)) {}
  LogField(std::string_view key, bool value) : key(key), value(value ? "true" : "false") {}
  LogField(std::string_view key, std::string_view value) : key(key), value(value) {}
  LogField(std::string_view key, const std::string& value) : key(key), value(value) {}
  LogField(std::string_view key, const char* value) : key(key), value(value) {}
  LogField(std::string_view key, Duration value) : key(key), value(ToString(value)) {}
  LogField(std::string_view key, const absl::Status& value) : key(key), value(value.ToString()) {}

  std::string key;
  std::string value;
};

// "event key=value …"; values with spaces, quotes, '=' or control characters are quoted.
std::string FormatLogLine(std::string_view event, std::initializer_list<LogField> fields);

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
inline void LogInfo(std::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, event, fields);
}
inline void LogWarning(std::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, event, fields);
}
inline void LogError(std::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, event, fields);
}

// Sets the destination of lines. Until the first call it is stderr, from level info on. The file is
// appended to with one write a line, so several processes may share it. UNAVAILABLE: it cannot be
// opened.
void LogToStderr();
absl::Status LogToFile(const std::string& path);

}  // namespace paceline
