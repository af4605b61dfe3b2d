import unittest

from tool import component, search


class Search(unittest.TestCase):
    def test_a_function_stays_a_function(self):
        self.assertEqual([page["title"] for page in search("gate")], ["Gates"])
        self.assertEqual(len(search("a", limit=2)), 2)

    def test_the_schema_comes_from_the_docstring(self):
        query = component.tools["search"].parameters["properties"]["query"]
        self.assertEqual(query["description"], "The words to look for.")


if __name__ == "__main__":
    unittest.main()
