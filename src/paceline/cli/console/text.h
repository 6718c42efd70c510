#pragma once

// Small pure functions over text that people read.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::cli {

std::vector<std::string_view> SplitLines(std::string_view text);
std::vector<std::string> Split(std::string_view text, char separator);

// Makes foreign text harmless to a terminal: control characters, escape sequences, bytes that are
// not UTF-8 and the characters that reorder a line (bidi overrides) become \xNN or \u{…}. Line
// breaks too.
std::string Visible(std::string_view text);
// The same for text of several lines, whose line breaks stay.
std::string VisibleLines(std::string_view text);

// A line of another program for a terminal. Keeps what colours and progress bars need: SGR, erase
// in line, cursor up, carriage return, backspace and tab. Other control characters and sequences,
// such as those that set the title or the clipboard, are dropped.
std::string ForTerminal(std::string_view line);

// Number of character cells; every character that is not combining counts as one.
size_t Width(std::string_view text);

// At most `width` cells; if the text was cut, the last one is "…".
std::string Clip(std::string_view text, size_t width);

// `text` padded with spaces to `width` cells.
std::string Pad(std::string_view text, size_t width);

// UTF-8 signs that paceline itself prints (✓ → … × · ─) as ASCII; other text is left alone.
std::string AsciiSigns(std::string_view text);

// Columns as wide as their widest cell, two spaces apart, each row clipped to `width` (0 = not).
// The first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows, size_t width);

// A word as a POSIX shell would need it.
std::string ShellWord(std::string_view word);
// The command that goes on with the job of a run directory.
std::string ResumeCommand(std::string_view run_dir);

// "paceline run --nprc 2 train.py" with a second line that points at args[index].
std::string PointAtArgument(std::string_view command, std::span<const std::string> args,
                            size_t index);

// The candidate with the smallest edit distance (a swap of neighbours counts as one), or "" if none
// is close enough.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);
size_t EditDistance(std::string_view a, std::string_view b);

// Breaks `text` at spaces into lines of at most `width`, each after `indent` spaces.
std::string Wrap(std::string_view text, size_t indent, size_t width);

}  // namespace paceline::cli
