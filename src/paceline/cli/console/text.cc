#include "paceline/cli/console/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "paceline/base/hex.h"

namespace paceline::cli {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

CodePoint Decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  uint32_t value = first & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<uint32_t, 5> kLowest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kLowest[bytes] || value > 0x10FFFF || surrogate) return {};
  return {value, bytes};
}

bool IsHarmful(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

bool IsCombining(uint32_t c) {
  return (c >= 0x300 && c <= 0x36F) || (c >= 0x1AB0 && c <= 0x1AFF) ||
         (c >= 0x20D0 && c <= 0x20FF) || (c >= 0xFE00 && c <= 0xFE0F);
}

// The bytes of the control sequence at the start of `text`, which is ESC. A sequence without an end
// takes the whole text: otherwise the terminal would read the next line as its rest.
size_t SequenceBytes(std::string_view text) {
  if (text.size() < 2) return text.size();
  const auto in = [&](size_t at, char low, char high) {
    return at < text.size() && text[at] >= low && text[at] <= high;
  };
  size_t end = 1;
  if (text[1] == '[') {
    end = 2;
    while (in(end, 0x20, 0x3F)) ++end;
    return std::min(end + 1, text.size());
  }
  // Strings: DCS, SOS, OSC, PM, APC. They end with BEL or ESC \.
  if (std::string_view("PX]^_").find(text[1]) != std::string_view::npos) {
    for (end = 2; end < text.size(); ++end) {
      if (text[end] == '\a') return end + 1;
      if (text[end] == '\x1b') return std::min(end + 2, text.size());
    }
    return text.size();
  }
  while (in(end, 0x20, 0x2F)) ++end;
  return std::min(end + 1, text.size());
}

bool IsColorOrProgress(std::string_view sequence) {
  if (!sequence.starts_with("\x1b[") || sequence.size() < 3) return false;
  const std::string_view parameters = sequence.substr(2, sequence.size() - 3);
  const char kind = sequence.back();
  return (kind == 'm' || kind == 'K' || kind == 'A') &&
         parameters.find_first_not_of("0123456789;:") == std::string_view::npos;
}

}  // namespace

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = Decode(text);
    const size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    if (c.bytes == 0 || (c.value < 0x100 && IsHarmful(c.value))) {
      if (c.value == '\t') {
        out += ' ';
      } else {
        out += "\\x" + Hex(c.bytes == 0 ? static_cast<uint8_t>(text[0]) : c.value, 2);
      }
    } else if (IsHarmful(c.value)) {
      out += "\\u{" + Hex(c.value, 4) + "}";
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string ForTerminal(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  while (!line.empty()) {
    size_t bytes = 1;
    bool is_kept = true;
    if (line[0] == '\x1b') {
      bytes = SequenceBytes(line);
      is_kept = IsColorOrProgress(line.substr(0, bytes));
    } else {
      const CodePoint c = Decode(line);
      // Text in another encoding is kept, but 0x80 to 0x9F control a terminal in any of them.
      const uint32_t value = c.bytes == 0 ? static_cast<uint8_t>(line[0]) : c.value;
      bytes = std::max<size_t>(c.bytes, 1);
      is_kept = value >= 0xA0 || (value >= 0x20 && value < 0x7F) || value == '\t' ||
                value == '\r' || value == '\b';
    }
    if (is_kept) out += line.substr(0, bytes);
    line.remove_prefix(bytes);
  }
  return out;
}

std::string VisibleLines(std::string_view text) {
  std::string out;
  for (const std::string_view line : SplitLines(text)) {
    out += (out.empty() ? "" : "\n") + Visible(line);
  }
  return out;
}

size_t Width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const CodePoint c = Decode(text);
    if (c.bytes == 0 || !IsCombining(c.value)) ++width;
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return width;
}

std::string Clip(std::string_view text, size_t width) {
  if (Width(text) <= width) return std::string(text);
  std::string out;
  size_t cells = 0;
  while (!text.empty() && width > 0) {
    const CodePoint c = Decode(text);
    const size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    const size_t cell = c.bytes != 0 && IsCombining(c.value) ? 0 : 1;
    if (cells + cell > width - 1) break;
    cells += cell;
    out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  if (width > 0) out += "…";
  return out;
}

std::string Pad(std::string_view text, size_t width) {
  const size_t cells = Width(text);
  return std::string(text) + std::string(cells < width ? width - cells : 0, ' ');
}

std::string AsciiSigns(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
      {"✓", "ok"}, {"→", "->"},  {"…", "..."}, {"×", "x"},  {"·", "-"}, {"─", "-"}, {"│", "|"},
      {"−", "-"},  {"↳", "`->"}, {"≤", "<="},  {"≥", ">="}, {"█", "#"}, {"░", "."}, {"µ", "u"}};
  std::string out;
  while (!text.empty()) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](const auto& s) { return text.starts_with(s.first); });
    if (sign != std::end(kSigns)) {
      out += sign->second;
      text.remove_prefix(sign->first.size());
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string Table(const std::vector<std::vector<std::string>>& rows, size_t width) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i + 1 == row.size() ? row[i] : Pad(row[i], widths[i] + 2);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (width == 0 ? line : Clip(line, width)) + "\n";
  }
  return out;
}

std::string ShellWord(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string ResumeCommand(std::string_view run_dir) {
  return "paceline run --resume --run-dir " + ShellWord(run_dir);
}

std::string PointAtArgument(std::string_view command, std::span<const std::string> args,
                            size_t index) {
  constexpr size_t kAround = 3;
  constexpr size_t kWordMax = 32;
  std::string line(command);
  std::string pointer;
  const size_t first = index > kAround ? index - kAround : 0;
  const size_t last = std::min(args.size(), index + kAround + 1);
  if (first > 0) line += " …";
  for (size_t i = first; i < last; ++i) {
    const std::string word = Clip(Visible(ShellWord(args[i])), kWordMax);
    line += ' ';
    if (i == index) {
      pointer = std::string(Width(line), ' ') + "^" +
                std::string(Width(word) > 1 ? Width(word) - 1 : 0, '~');
    }
    line += word;
  }
  if (last < args.size()) line += " …";
  if (pointer.empty()) pointer = std::string(Width(line) + 1, ' ') + "^";
  return line + "\n" + pointer;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    before.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kWordMax = 64;  // longer words are not compared, because the time is quadratic
  if (word.size() > kWordMax) return {};
  std::string_view best;
  size_t best_distance = 1 + std::max<size_t>(1, word.size() / 3);
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string Wrap(std::string_view text, size_t indent, size_t width) {
  std::string out;
  std::string line;
  const std::string margin(indent, ' ');
  const size_t room = width > indent + 10 ? width - indent : 10;
  for (const std::string& word : Split(text, ' ')) {
    if (word.empty()) continue;
    if (!line.empty() && Width(line) + 1 + Width(word) > room) {
      out += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) out += margin + line + "\n";
  return out;
}

}  // namespace paceline::cli
