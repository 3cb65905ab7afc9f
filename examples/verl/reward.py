"""A reward function for verl with two channels: ``score`` is what verl wants, the estimators read the others."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    printable = sum(character.isascii() and character.isprintable() for character in solution_str)
    correctness = printable / max(1, len(solution_str))
    digits = float(any(character.isdigit() for character in solution_str))
    return {"score": correctness + digits, "correctness": correctness, "format": digits}
