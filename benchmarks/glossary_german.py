"""Fifty German cases of inflection, case and compounds: what comes out with a glossary of German-to-English terms.

    python benchmarks/glossary_german.py [--strict] [--domain DOMAIN]

The sentences are made by hand. A case is right if the translation has an accepted form of the term.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from lacuna.domain import open_domain
from lacuna.glossaries import Glossary, Term
from lacuna.models import load_model
from lacuna.translator import System

# Translations are unusual on purpose, so that the model does not choose them by itself.
_TERMS = [
    Term("Datei", ("record",)),
    Term("Ordner", ("binder",)),
    Term("Drucker", ("press",)),
    Term("Fenster", ("pane",)),
    Term("Benutzer", ("operator",)),
    Term("Passwort", ("passphrase",)),
    Term("Rechnung", ("voucher",)),
    Term("Vertrag", ("covenant",)),
    Term("Kunde", ("client",)),
    Term("Konto", ("ledger",)),
    Term("speichern", ("store",)),
    Term("löschen", ("erase",)),
    Term("elektronische Signatur", ("digital seal",)),
    Term("neues Fenster", ("fresh pane",)),
    Term("Schaltfläche", ("push button",)),
]
_CASES = [
    # Singular, with each case.
    ("Datei", "Die Datei ist leer."),
    ("Datei", "Öffnen Sie die Datei."),
    ("Datei", "Der Name der Datei ist zu lang."),
    ("Datei", "In der Datei steht nichts."),
    ("Ordner", "Der Ordner ist voll."),
    ("Ordner", "Legen Sie alles in den Ordner."),
    ("Ordner", "Der Inhalt des Ordners wurde gelesen."),
    ("Ordner", "In diesem Ordner ist kein Platz."),
    ("Drucker", "Der Drucker ist aus."),
    ("Drucker", "Schalten Sie den Drucker ein."),
    ("Drucker", "Die Farbe des Druckers ist grau."),
    ("Benutzer", "Der Benutzer hat keine Rechte."),
    ("Benutzer", "Fragen Sie den Benutzer."),
    ("Benutzer", "Das Alter des Benutzers ist unbekannt."),
    ("Passwort", "Das Passwort ist falsch."),
    ("Passwort", "Die Länge des Passworts ist wichtig."),
    ("Vertrag", "Der Vertrag ist alt."),
    ("Vertrag", "Wir lesen den Vertrag."),
    ("Vertrag", "Das Ende des Vertrags ist nahe."),
    ("Vertrag", "Das steht im Vertrag."),
    ("Kunde", "Der Kunde ist zufrieden."),
    ("Kunde", "Wir rufen den Kunden an."),
    ("Kunde", "Der Wunsch des Kunden ist klar."),
    # Plural.
    ("Datei", "Alle Dateien sind offen."),
    ("Datei", "Zwei Dateien fehlen noch."),
    ("Ordner", "Die Ordner sind alle voll."),
    ("Drucker", "Es gibt drei Drucker im Büro."),
    ("Fenster", "Schließen Sie alle Fenster."),
    ("Fenster", "Die Größe der Fenster ist gleich."),
    ("Rechnung", "Die Rechnungen sind bezahlt."),
    ("Rechnung", "Bitte schicken Sie uns die Rechnungen."),
    ("Vertrag", "Die Verträge sind unterschrieben."),
    ("Kunde", "Unsere Kunden sind zufrieden."),
    ("Konto", "Das Konto ist leer."),
    ("Konto", "Alle Konten sind leer."),
    ("Passwort", "Die Passwörter sind zu kurz."),
    # Verbs.
    ("speichern", "Sie können das Bild speichern."),
    ("speichern", "Das Programm speichert das Bild."),
    ("speichern", "Das Bild wurde gespeichert."),
    ("löschen", "Sie können das Bild löschen."),
    ("löschen", "Bitte löschen Sie das Bild."),
    # Several words.
    ("elektronische Signatur", "Die elektronische Signatur ist gültig."),
    ("elektronische Signatur", "Mit einer elektronischen Signatur geht es schneller."),
    ("elektronische Signatur", "Elektronische Signaturen sind gültig."),
    ("neues Fenster", "Ein neues Fenster wird geöffnet."),
    ("neues Fenster", "Es erscheint in einem neuen Fenster."),
    # Compounds: found only if a memory has seen the parts.
    ("Drucker", "Der Netzwerkdrucker ist aus."),
    ("Konto", "Das Benutzerkonto ist gesperrt."),
    ("Datei", "Die Textdatei ist leer."),
    ("Schaltfläche", "Klicken Sie auf die Schaltfläche."),
]


def main() -> None:
    """Print each case with what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--domain", type=Path)
    given = parser.parse_args()
    system = System(load_model()) if given.domain is None else open_domain(given.domain).system
    translator = replace(system, glossary=Glossary(_TERMS), strict_terms=given.strict).open()
    right = 0
    for (wanted, source), translation in zip(_CASES, translator.translate([case for _, case in _CASES]), strict=True):
        term = next((term for term in translation.terms if term.source == wanted), None)
        state = "not found" if term is None else "right" if term.target else "missing"
        right += state == "right"
        print(f"{state:9}  {wanted:22}  {source}  ->  {translation.text}")
    print(f"{right} of {len(_CASES)} right")


if __name__ == "__main__":
    main()
