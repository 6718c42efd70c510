#include "paceline/cli/page/document.h"

#include "absl/strings/escaping.h"
#include "paceline/base/text.h"
#include "paceline/cli/page/assets.h"

namespace paceline::cli {
namespace {

std::string HashSource(const std::string& sha256) {
  return Concat("'sha256-", absl::Base64Escape(absl::HexStringToBytes(sha256)), "'");
}

// Inside a script element only "<" can end it or open a comment.
std::string Harmless(std::string_view json) {
  std::string safe;
  for (const char one : json) {
    if (one == '<') {
      safe += "\\u003c";
    } else {
      safe += one;
    }
  }
  return safe;
}

std::string HtmlText(std::string_view text) {
  std::string safe;
  for (const char one : text) {
    switch (one) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      default: safe += one;
    }
  }
  return safe;
}

struct PageScript {
  std::string_view text;
  std::string_view sha256;
  std::string_view sources = {};  // what it may ask, as a directive of the policy
};

// `data`: what stands before the script.
std::string HtmlDocument(std::string_view title, std::string_view data, const PageScript& script) {
  const PageAssets assets = EmbeddedPage();
  return Concat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src ",
      HashSource(std::string(script.sha256)), "; style-src ",
      HashSource(std::string(assets.style_sha256)), script.sources,
      "; img-src data:; base-uri 'none'; form-action 'none'\">\n",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>", HtmlText(title),
      "</title>\n<style>", assets.style, "</style>\n</head>\n<body>\n",
      "<noscript>This page draws its data with JavaScript.</noscript>\n", data,
      "<script type=\"module\">", script.text, "</script>\n</body>\n</html>\n");
}

}  // namespace

std::string PageDocument(std::string_view title, std::string_view json) {
  const PageAssets assets = EmbeddedPage();
  const std::string data =
      Concat("<script type=\"application/json\" id=\"data\">", Harmless(json), "</script>\n");
  return HtmlDocument(title, data, {assets.script, assets.script_sha256});
}

std::string LiveDocument() {
  const PageAssets assets = EmbeddedPage();
  return HtmlDocument("paceline", "",
                      {assets.live_script, assets.live_script_sha256, "; connect-src 'self'"});
}

}  // namespace paceline::cli
