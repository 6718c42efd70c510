#include "paceline/cli/run/interpreter.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "paceline/base/test_dir.h"

namespace paceline::cli {
namespace {

// A virtual environment in `dir`, whose interpreter is what a test makes of it.
struct EnvironmentCase {
  TestDir dir;
  std::string folder = dir.path() + "/bin";
  std::string python = folder + "/python";

  EnvironmentCase() { std::filesystem::create_directories(folder); }
  void Program(mode_t mode) const {
    dir.Write("bin/python", "#!/bin/sh\nexit 7\n");
    ASSERT_EQ(::chmod(python.c_str(), mode), 0);
  }
  // With `beside`, paceline is in that environment; else the environment is active.
  Result<std::string> Find(bool beside) const {
    Environment environment = {{"PATH", folder + ":/usr/bin:/bin"}, {"VIRTUAL_ENV", dir.path()}};
    auto settings = LoadSettings({.environment = environment});
    return FindInterpreter(environment, settings.value(),
                           {.cwd = "/w", .binary_dir = beside ? folder : "/nowhere"});
  }
};

TEST(Interpreter, ThatOfTheEnvironmentIsNeverReplacedByAnother) {
  for (const bool beside : {true, false}) {
    const EnvironmentCase here;
    here.Program(0644);
    const auto found = here.Find(beside);
    ASSERT_FALSE(found.ok()) << found.value();
    EXPECT_EQ(found.problem().code, "PL-E009");
    EXPECT_EQ(found.problem().what, "the Python interpreter " + here.python + " cannot be run");
    EXPECT_NE(found.problem().why.find("it may not be executed by this user"), std::string::npos)
        << found.problem().why;
    here.Program(0755);
    ASSERT_TRUE(here.Find(beside).ok());
    EXPECT_EQ(here.Find(beside).value(), here.python);
  }
}

TEST(Interpreter, ALinkThatLeadsNowhereIsFollowedAndNamed) {
  const EnvironmentCase here;
  std::filesystem::create_symlink("python3", here.python);
  std::filesystem::create_symlink("/nowhere/python3.11", here.folder + "/python3");
  const auto found = here.Find(true);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.problem().why, "it leads to /nowhere/python3.11, which does not exist");
}

TEST(Interpreter, OneThatFailsIsNotCalledIncomplete) {
  const EnvironmentCase here;
  here.Program(0755);
  const Check problem = CheckInterpreter(here.python, {.binary_dir = "/nowhere"});
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->why, "it ended with exit code 7 when it was asked for the paceline package");
}

}  // namespace
}  // namespace paceline::cli
