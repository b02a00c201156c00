// A validator for the part of JSON Schema (draft 2020-12) that docs/metrics.schema.json uses: type, const, enum,
// properties, required, additionalProperties: false, items, minimum, maximum, oneOf, $ref within the document.
// A keyword it does not know is a fault, so that the schema cannot promise what nobody checks.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace mgtrain {

class JsonSchema {
 public:
  explicit JsonSchema(nlohmann::json root) : root_(std::move(root)) {}

  /// Empty if `value` fits, else the first fault with its place.
  [[nodiscard]] std::string fault(const nlohmann::json& value) const { return fault(root_, value, "$"); }

 private:
  using Json = nlohmann::json;

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    throw std::logic_error("unknown type in schema: " + type);
  }

  std::string fault(const Json& schema, const Json& value, const std::string& at) const {
    static const std::set<std::string> known = {"$schema", "$defs", "title",    "description", "type",
                                                "const",   "enum",  "minimum",  "maximum",     "properties",
                                                "items",   "oneOf", "required", "$ref",        "additionalProperties"};
    for (const auto& [keyword, unused] : schema.items()) {
      if (!known.contains(keyword)) return at + ": the schema uses the unknown keyword " + keyword;
    }
    if (schema.contains("$ref")) {
      const auto pointer = schema["$ref"].get<std::string>();
      if (std::string f = fault(root_.at(Json::json_pointer(pointer.substr(1))), value, at); !f.empty()) return f;
    }
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      bool fits = false;
      for (const Json& type : types) fits = fits || has_type(value, type.get<std::string>());
      if (!fits) return at + ": " + value.dump() + " is not of type " + schema["type"].dump();
    }
    if (schema.contains("const") && value != schema["const"]) return at + ": is not " + schema["const"].dump();
    if (schema.contains("enum")) {
      bool fits = false;
      for (const Json& choice : schema["enum"]) fits = fits || value == choice;
      if (!fits) return at + ": " + value.dump() + " is none of " + schema["enum"].dump();
    }
    if (value.is_number()) {
      if (schema.contains("minimum") && value < schema["minimum"]) return at + ": below the minimum";
      if (schema.contains("maximum") && value > schema["maximum"]) return at + ": above the maximum";
    }
    if (schema.contains("oneOf")) {
      int num_fitting = 0;
      for (const Json& choice : schema["oneOf"]) num_fitting += fault(choice, value, at).empty() ? 1 : 0;
      if (num_fitting != 1) return at + ": fits " + std::to_string(num_fitting) + " of oneOf: " + value.dump();
    }
    return value.is_object() ? object_fault(schema, value, at) : array_fault(schema, value, at);
  }

  std::string object_fault(const Json& schema, const Json& value, const std::string& at) const {
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) return at + ": lacks " + key.dump();
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [key, field] : value.items()) {
      if (properties.contains(key)) {
        if (std::string f = fault(properties[key], field, at + "." + key); !f.empty()) return f;
      } else if (schema.value("additionalProperties", true) == false) {
        return at + ": has the unknown key " + key;
      }
    }
    return {};
  }

  std::string array_fault(const Json& schema, const Json& value, const std::string& at) const {
    if (!value.is_array() || !schema.contains("items")) return {};
    for (size_t i = 0; i < value.size(); ++i) {
      if (std::string f = fault(schema["items"], value[i], at + "[" + std::to_string(i) + "]"); !f.empty()) return f;
    }
    return {};
  }

  Json root_;
};

}  // namespace mgtrain
