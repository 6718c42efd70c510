#include "paceline/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "paceline/base/status_macros.h"

namespace paceline {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger> MakeLogger(spdlog::sink_ptr sink) {
  auto logger = std::make_shared<spdlog::logger>("paceline", std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  return logger;
}

// The process's only logger, shared between this file and spdlog's registry.
void Install(spdlog::sink_ptr sink) {
  const auto level = spdlog::default_logger()->level();
  auto logger = MakeLogger(std::move(sink));
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

spdlog::logger& Logger() {
  static const bool once = [] {
    if (spdlog::default_logger()->name() != "paceline") LogToStderr();
    return true;
  }();
  static_cast<void>(once);
  return *spdlog::default_logger_raw();
}

bool IsPlain(char c) { return c > ' ' && c != '"' && c != '=' && c != '\\' && c != '\x7f'; }

void AppendQuoted(std::string_view value, std::string& line) {
  static constexpr char kHex[] = "0123456789abcdef";
  line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      line += {'\\', c};
    } else if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      const auto byte = static_cast<unsigned char>(c);
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      line += c;
    }
  }
  line += '"';
}

}  // namespace

std::string FormatLogLine(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    bool plain = !field.value.empty();
    // Bytes above 127 are negative where char is signed. They need no quotes.
    for (const char c : field.value) plain &= static_cast<signed char>(c) < 0 || IsPlain(c);
    if (plain) {
      line += field.value;
    } else {
      AppendQuoted(field.value, line);
    }
  }
  return line;
}

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(ToSpdlog(level))) return;
  logger.log(ToSpdlog(level), spdlog::string_view_t(FormatLogLine(event, fields)));
}

void LogToStderr() { Install(std::make_shared<spdlog::sinks::stderr_sink_mt>()); }

absl::Status LogToFile(const std::string& path) {
  try {
    Install(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  } catch (const spdlog::spdlog_ex& error) {
    return MakeStatus(absl::StatusCode::kUnavailable,
                      "cannot open the log " + path + ": " + error.what());
  }
  return absl::OkStatus();
}

void SetLogLevel(LogLevel lowest) { Logger().set_level(ToSpdlog(lowest)); }

}  // namespace paceline
