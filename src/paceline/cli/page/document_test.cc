#include "paceline/cli/page/document.h"

#include <string>

#include "gtest/gtest.h"
#include "paceline/cli/page/assets.h"

namespace paceline::cli {
namespace {

TEST(PageDocument, TextOfTheJobIsNoMarkup) {
  const std::string page =
      PageDocument("<b>&", R"({"name":"</script><script>alert(1)</script><!--"})");
  EXPECT_NE(page.find("<title>&lt;b&gt;&amp;</title>"), std::string::npos);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_NE(page.find(R"("\u003c/script>\u003cscript>alert(1)\u003c/script>\u003c!--")"),
            std::string::npos);
}

// One script whose modules are joined: an import would ask a server.
TEST(PageDocument, AsksNoServer) {
  const std::string_view script = EmbeddedPage().script;
  EXPECT_GT(script.size(), 1000u);
  for (const char* word : {"\nimport ", "\nexport ", "fetch(", "</script"}) {
    EXPECT_EQ(script.find(word), std::string_view::npos) << word;
  }
  const std::string page = PageDocument("", "{}");
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("unsafe-inline"), std::string::npos);
}

// The page that a master serves to anybody on its host.
TEST(PageDocument, TheLivePageHasNoDataAndAsksItsServerAlone) {
  const std::string page = LiveDocument();
  EXPECT_EQ(page.find("id=\"data\""), std::string::npos);
  EXPECT_NE(page.find("connect-src 'self'"), std::string::npos);
  EXPECT_EQ(page.find("unsafe-inline"), std::string::npos);
  const std::string_view script = EmbeddedPage().live_script;
  EXPECT_NE(script.find("fetch("), std::string_view::npos);
  for (const char* word : {"\nimport ", "\nexport ", "</script"}) {
    EXPECT_EQ(script.find(word), std::string_view::npos) << word;
  }
}

}  // namespace
}  // namespace paceline::cli
