use super::*;

fn read(text: &str) -> Description {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    Description::read(&lines, |name| ["a", "b", "text"].contains(&name))
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn k3_the_first_paragraph_is_the_description() {
    let description = read(" Adds two\n numbers.\n\n More that the model does not need.");
    assert_eq!(description.summary, "Adds two numbers.");
    assert_eq!(description.parameters, pairs(&[]));
}

#[test]
fn k3_param_lines_describe_parameters() {
    let description =
        read(" Adds.\n :param a: The first,\n   in full.\n :param b: The second.\n :returns: the sum");
    assert_eq!(description.summary, "Adds.");
    assert_eq!(description.parameters, pairs(&[("a", "The first, in full."), ("b", "The second.")]));
}

#[test]
fn k3_an_args_section_describes_parameters() {
    let description = read(
        " Adds.\n\n Args:\n     a (int): The first: in full,\n         see: elsewhere.\n\n     b: The second.\n Returns: the sum\n",
    );
    assert_eq!(
        description.parameters,
        pairs(&[("a", "The first: in full, see: elsewhere."), ("b", "The second.")])
    );
}

#[test]
fn k3_a_heading_of_markdown_begins_the_arguments_too() {
    let description =
        read(" Adds.\n\n # Arguments\n\n * `a` - The first.\n * b - The second.\n\n # Errors\n a: none");
    assert_eq!(description.parameters, pairs(&[("a", "The first."), ("b", "The second.")]));
}

#[test]
fn k3_a_list_describes_parameters_and_other_lists_do_not() {
    let description = read(" Adds.\n\n * a - The first.\n * quick - It is.\n * b - The second.");
    assert_eq!(description.parameters, pairs(&[("a", "The first."), ("b", "The second.")]));
    let other = read(" Adds:\n\n * quick - It is.");
    assert_eq!(other.parameters, pairs(&[]));
}

#[test]
fn k3_a_name_that_is_no_parameter_is_told_where_only_parameters_stand() {
    let description = read(" Adds.\n\n Args:\n   c: Nothing.");
    assert_eq!(description.parameters, pairs(&[("c", "Nothing.")]));
}
