#include "runner/command_line.h"

#include <cstring>

#include "runner/console.h"

namespace ethos_hil::runner {

namespace {

constexpr char USAGE[] =
    "executor_runner -m program.pte -i input.bin [-i input2.bin ...] -o output_base [--server_mode true]";
constexpr char SERVER_MODE[] = "--server_mode";

bool is_blank(char character) { return character == ' ' || character == '\t' || character == '\n'; }

// Returns the next word of `rest` and moves `rest` past it; null at the end. A quoted word ends at the same quote.
char* next_word(char*& rest) {
  while (is_blank(*rest)) ++rest;
  if (*rest == '\0') return nullptr;
  char* word = rest;
  char* end = word;
  char quote = '\0';
  for (; *rest != '\0' && (quote != '\0' || !is_blank(*rest)); ++rest) {
    if (quote == '\0' && (*rest == '"' || *rest == '\'')) {
      quote = *rest;
    } else if (*rest == quote) {
      quote = '\0';
    } else {
      *end++ = *rest;
    }
  }
  if (*rest != '\0') ++rest;
  *end = '\0';
  return word;
}

Characters shown(const char* word) { return {word, std::strlen(word)}; }

[[noreturn]] void explain(const Text& problem) {
  reject(Text() << Characters{problem.data(), problem.size()} << "; usage: " << USAGE);
}

void set_once(const char*& option, const char* name, const char* value) {
  if (option != nullptr)
    explain(Text() << "two arguments " << name << ": " << shown(option) << " and " << shown(value));
  option = value;
}

}  // namespace

CommandLine::CommandLine(char* line) {
  next_word(line);  // the program's own name
  while (const char* word = next_word(line)) {
    const char* value = next_word(line);
    const bool is_server_mode = std::strcmp(word, SERVER_MODE) == 0;
    if (!is_server_mode && std::strcmp(word, "-m") != 0 && std::strcmp(word, "-i") != 0 &&
        std::strcmp(word, "-o") != 0) {
      explain(Text() << "argument '" << shown(word) << "' is not -m, -i, -o or " << SERVER_MODE);
    }
    if (value == nullptr) {
      explain(Text() << "argument " << shown(word) << " needs " << (is_server_mode ? "true or false" : "a file name"));
    }
    if (is_server_mode) {
      server_mode = std::strcmp(value, "true") == 0;
      if (!server_mode && std::strcmp(value, "false") != 0) {
        explain(Text() << "argument " << SERVER_MODE << " is true or false, not '" << shown(value) << "'");
      }
    } else if (word[1] == 'm') {
      set_once(program, word, value);
    } else if (word[1] == 'o') {
      set_once(output_base, word, value);
    } else if (input_count == MAX_INPUTS) {
      explain(Text() << "more than " << MAX_INPUTS << " inputs");
    } else {
      inputs[input_count++] = value;
    }
  }
  if (program == nullptr || output_base == nullptr) {
    explain(Text() << "not right number of parameters: " << (program == nullptr ? "-m" : "-o") << " is missing");
  }
}

bool has_arguments(const char* line) {
  while (is_blank(*line)) ++line;
  while (*line != '\0' && !is_blank(*line)) ++line;
  while (is_blank(*line)) ++line;
  return *line != '\0';
}

}  // namespace ethos_hil::runner
