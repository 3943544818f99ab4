import js from "@eslint/js";
import globals from "globals";

// The page's modules are joined into one (agentgraph/window/joined.py), so they keep to a few forms.
const FORMS = [
  ["ImportDefaultSpecifier, ImportNamespaceSpecifier", "write import {a, b} from \"./x.js\""],
  ["ImportExpression, MetaProperty", "the joined module has no files to load"],
  ["ExportDefaultDeclaration, ExportAllDeclaration", "write export before the declaration"],
  ["ExportNamedDeclaration[declaration=null]", "write export before the declaration"],
];

export default [
  {ignores: [".*/", "build/", "dist/", "docs/_build/"]},
  js.configs.recommended,
  {
    languageOptions: {ecmaVersion: 2023, sourceType: "module"},
    linterOptions: {reportUnusedDisableDirectives: "error"},
    rules: {
      "consistent-return": "error",
      "default-case-last": "error",
      "eqeqeq": "error",
      "max-len": ["error", {code: 110, ignoreUrls: true}],
      "max-lines": ["error", 600],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-shadow": "error",
      "no-throw-literal": "error",
      "no-undef-init": "error",
      "no-unneeded-ternary": "error",
      "no-unused-expressions": ["error", {allowShortCircuit: true}],
      "no-unused-vars": ["error", {argsIgnorePattern: "^_", varsIgnorePattern: "^_"}],
      "no-use-before-define": ["error", {functions: false, variables: false}],
      "no-useless-return": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": ["error", {destructuring: "all"}],
      "prefer-template": "error",
      "complexity": ["error", 15],
    },
  },
  {
    files: ["agentgraph/window/page/*.js", "examples/web/page.js", "tests/window/*.js"],
    languageOptions: {globals: globals.browser},
    rules: {
      "no-console": "error",
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => (
          {property, message: "texts are only ever text: see elements.js"}
        )),
      ],
    },
  },
  {
    files: ["agentgraph/window/page/*.js"],
    rules: {
      "no-restricted-syntax": ["error", ...FORMS.map(([selector, message]) => ({selector, message}))],
    },
  },
  {files: ["tests/**/*.{js,mjs}", "eslint.config.js"], languageOptions: {globals: globals.node}},
];
