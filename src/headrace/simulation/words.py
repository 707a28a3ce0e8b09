"""Words on receipts, and what is sold, in each language that the countries print."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

Goods = tuple[tuple[str, Decimal], ...]


def _goods(text: str) -> Goods:
    """`name 1.20; other name 3.40` as pairs; prices are before the country's factor."""
    pairs = (entry.strip().rsplit(" ", 1) for entry in text.split(";"))
    return tuple((name, Decimal(price)) for name, price in pairs)


WORDS: Final[dict[str, dict[str, str]]] = {
    "en": {
        "receipt": "Receipt", "date": "Date", "time": "Time", "cashier": "Cashier: Sam", "table": "Table",
        "subtotal": "Subtotal", "total": "TOTAL", "rounding": "Rounding", "cash": "Cash", "change": "Change",
        "card": "Card", "tip": "Tip", "paid": "Amount paid", "thanks": "Thank you, please come again",
        "net": "Net", "gross": "Gross", "invoice": "Invoice", "guest": "Guest: A. Sample", "room": "Room",
        "nights": "Night, double room", "breakfast": "Breakfast", "parking": "Parking", "fare": "Fare",
        "extras": "Luggage", "from": "From: Central Station", "to": "To: Airport T2", "pump": "Pump",
        "fuel": "Unleaded 95", "litre": "L", "approved": "APPROVED", "copy": "Customer copy", "items": "Items",
        "bill": "Bill", "included": "incl.",
    },
    "de": {
        "receipt": "Beleg-Nr.", "date": "Datum", "time": "Uhrzeit", "cashier": "Es bediente Sie: Frau Adler",
        "table": "Tisch", "subtotal": "Zwischensumme", "total": "SUMME", "rounding": "Rundung", "cash": "Bar",
        "change": "Rückgeld", "card": "Kartenzahlung", "tip": "Trinkgeld", "paid": "Gesamtbetrag",
        "thanks": "Vielen Dank für Ihren Besuch", "net": "Netto", "gross": "Brutto", "invoice": "Rechnung Nr.",
        "guest": "Gast: A. Muster", "room": "Zimmer", "nights": "Übernachtung Doppelzimmer",
        "breakfast": "Frühstück", "parking": "Parkplatz", "fare": "Fahrpreis", "extras": "Gepäck",
        "from": "Von: Hauptbahnhof", "to": "Nach: Flughafen", "pump": "Zapfsäule", "fuel": "Super E10",
        "litre": "l", "approved": "GENEHMIGT", "copy": "Kundenbeleg", "items": "Artikel", "bill": "Rechnung",
        "included": "inkl.",
    },
    "fr": {
        "receipt": "Ticket", "date": "Date", "time": "Heure", "cashier": "Servi par: Claire", "table": "Table",
        "subtotal": "Sous-total", "total": "TOTAL TTC", "rounding": "Arrondi", "cash": "Espèces",
        "change": "Rendu", "card": "Carte bancaire", "tip": "Pourboire", "paid": "Montant réglé",
        "thanks": "Merci de votre visite", "net": "HT", "gross": "TTC", "invoice": "Facture",
        "guest": "Client: A. Modele", "room": "Chambre", "nights": "Nuit chambre double",
        "breakfast": "Petit déjeuner", "parking": "Parking", "fare": "Course", "extras": "Bagages",
        "from": "De: Gare Part-Dieu", "to": "A: Aéroport", "pump": "Pompe", "fuel": "Sans plomb 95",
        "litre": "L", "approved": "ACCEPTE", "copy": "Ticket client", "items": "Articles", "bill": "Addition",
        "included": "dont",
    },
    "es": {
        "receipt": "Ticket", "date": "Fecha", "time": "Hora", "cashier": "Le atendió: Marta", "table": "Mesa",
        "subtotal": "Subtotal", "total": "TOTAL", "rounding": "Redondeo", "cash": "Efectivo", "change": "Cambio",
        "card": "Tarjeta", "tip": "Propina", "paid": "Importe pagado", "thanks": "Gracias por su visita",
        "net": "Base", "gross": "Total", "invoice": "Factura", "guest": "Cliente: A. Ejemplo",
        "room": "Habitación", "nights": "Noche habitación doble", "breakfast": "Desayuno",
        "parking": "Aparcamiento", "fare": "Carrera", "extras": "Equipaje", "from": "De: Estación Norte",
        "to": "A: Aeropuerto", "pump": "Surtidor", "fuel": "Gasolina 95", "litre": "L", "approved": "ACEPTADA",
        "copy": "Copia cliente", "items": "Artículos", "bill": "Cuenta", "included": "incl.",
    },
    "pl": {
        "receipt": "Paragon nr", "date": "Data", "time": "Godz.", "cashier": "Kasjer: Ola", "table": "Stolik",
        "subtotal": "Razem", "total": "SUMA", "rounding": "Zaokrąglenie", "cash": "Gotówka", "change": "Reszta",
        "card": "Karta", "tip": "Napiwek", "paid": "Do zapłaty", "thanks": "Dziękujemy, zapraszamy ponownie",
        "net": "Netto", "gross": "Brutto", "invoice": "Faktura", "guest": "Gość: A. Wzorowa", "room": "Pokój",
        "nights": "Nocleg, pokój dwuosobowy", "breakfast": "Śniadanie", "parking": "Parking", "fare": "Przejazd",
        "extras": "Bagaż", "from": "Z: Dworzec", "to": "Do: Lotnisko", "pump": "Dystrybutor",
        "fuel": "Benzyna 95", "litre": "L", "approved": "ZAAKCEPTOWANO", "copy": "Kopia klienta",
        "items": "Pozycje", "bill": "Rachunek", "included": "w tym",
    },
    "sv": {
        "receipt": "Kvitto", "date": "Datum", "time": "Tid", "cashier": "Kassör: Elsa", "table": "Bord",
        "subtotal": "Delsumma", "total": "TOTALT", "rounding": "Öresavrundning", "cash": "Kontant",
        "change": "Växel", "card": "Kort", "tip": "Dricks", "paid": "Att betala", "thanks": "Tack och välkommen åter",
        "net": "Netto", "gross": "Brutto", "invoice": "Faktura", "guest": "Gäst: A. Exempel", "room": "Rum",
        "nights": "Natt dubbelrum", "breakfast": "Frukost", "parking": "Parkering", "fare": "Resa",
        "extras": "Bagage", "from": "Från: Centralen", "to": "Till: Flygplatsen", "pump": "Pump",
        "fuel": "Bensin 95", "litre": "L", "approved": "GODKÄNT", "copy": "Kundens kvitto", "items": "Varor",
        "bill": "Nota", "included": "varav",
    },
}  # fmt: skip
WORDS["us"] = WORDS["en"] | {"fuel": "Regular 87", "litre": "gal"}
WORDS["jp"] = WORDS["en"] | {"thanks": "Arigato gozaimashita", "cashier": "Reji 03", "included": "incl."}

GROCERIES: Final[dict[str, Goods]] = {
    "en": _goods("Wholemeal bread 2.10; Semi-skimmed milk 1.35; Free range eggs 3.40; Cheddar 4.20; Butter 2.60;"
                 "Bananas 1.15; Apples bag 2.30; Tomatoes 1.90; Basil pot 1.60; Spaghetti 1.25; Rice 1kg 2.40;"
                 "Olive oil 7.90; Orange juice 2.80; Ground coffee 5.70; Tea bags 3.10; Oat biscuits 1.85;"
                 "Dark chocolate 2.20; Yogurt 0.95; Carrots 0.90; Salmon fillet 6.40; Peanut butter 2.75"),
    "de": _goods("Vollkornbrot 2.49; Vollmilch 1.19; Eier 10 Stück 2.99; Bergkäse 3.79; Butter 2.29; Bananen 1.35;"
                 "Äpfel 1kg 2.49; Tomaten 1.99; Basilikum 1.79; Spaghetti 0.99; Reis 1kg 2.19; Olivenöl 7.99;"
                 "Apfelsaft 1.69; Filterkaffee 6.49; Kamillentee 1.89; Haferkekse 1.59; Zartbitter 1.29;"
                 "Joghurt 0.79; Möhren 1.09; Lachsfilet 5.99; Honig 4.49"),
    "fr": _goods("Pain complet 2.20; Lait demi-écrémé 1.15; Oeufs plein air 3.30; Comté 5.40; Beurre doux 2.70;"
                 "Bananes 1.60; Pommes 2.40; Tomates 2.10; Basilic 1.70; Spaghetti 1.20; Riz long 2.30;"
                 "Huile olive 8.20; Jus orange 2.60; Café moulu 5.10; Tisane 2.90; Sablés 2.15; Chocolat noir 2.10;"
                 "Yaourt nature 1.30; Carottes 1.10; Saumon 6.80; Confiture 3.20"),
    "es": _goods("Pan integral 1.60; Leche entera 1.05; Huevos 2.40; Queso curado 4.90; Mantequilla 2.30;"
                 "Plátanos 1.80; Manzanas 2.10; Tomates 1.70; Albahaca 1.40; Espaguetis 1.10; Arroz 1kg 1.60;"
                 "Aceite de oliva 8.40; Zumo naranja 2.10; Café molido 3.90; Manzanilla 1.50; Galletas 1.75;"
                 "Chocolate negro 1.85; Yogur natural 1.20; Zanahorias 0.95; Salmón 6.10; Miel 3.90"),
    "pl": _goods("Chleb razowy 1.40; Mleko 2% 0.95; Jajka 10 szt. 2.60; Ser żółty 2.80; Masło 1.90; Banany 1.30;"
                 "Jabłka 0.90; Pomidory 1.80; Bazylia 1.50; Makaron 1.10; Ryż 1kg 1.60; Oliwa 7.40; Sok 1.45;"
                 "Kawa mielona 4.80; Herbata 1.70; Herbatniki 1.20; Czekolada 1.35; Jogurt 0.70; Marchew 0.60;"
                 "Łosoś 6.20; Miód 4.70"),
    "sv": _goods("Rågbröd 2.30; Mellanmjölk 1.25; Ägg 12-pack 3.10; Prästost 5.90; Smör 3.40; Bananer 1.50;"
                 "Äpplen 2.20; Tomater 2.40; Basilika 1.80; Spaghetti 1.40; Ris 1kg 2.10; Olivolja 8.60;"
                 "Äppeljuice 2.20; Bryggkaffe 5.40; Te 2.60; Havrekakor 1.95; Choklad 2.10; Yoghurt 1.90;"
                 "Morötter 1.10; Lax 6.90; Honung 4.30"),
    "jp": _goods("Shokupan 1.30; Gyunyu 1L 1.55; Tamago 10 1.85; Tofu 0.65; Natto 0.80; Banana 1.20; Ringo 2.10;"
                 "Tomato 1.95; Negi 1.10; Udon 0.95; Kome 2kg 8.40; Shoyu 2.20; Ocha 500ml 0.90; Kohi 3.60;"
                 "Senbei 1.40; Choco 1.05; Yogurt 1.15; Ninjin 0.85; Sake kirimi 3.40; Nori 2.60"),
}  # fmt: skip

DISHES: Final[dict[str, Goods]] = {
    "en": _goods("Soup of the day 6.50; Garden salad 8.20; Grilled sea bass 19.50; Ribeye steak 27.00;"
                 "Mushroom risotto 15.80; House burger 14.90; Apple crumble 7.20; Sparkling water 3.40;"
                 "Lemonade 4.10; Espresso 2.90"),
    "de": _goods("Kürbissuppe 6.80; Feldsalat 8.40; Zanderfilet 21.50; Schnitzel 18.90; Käsespätzle 13.80;"
                 "Maultaschen 14.20; Apfelstrudel 6.90; Mineralwasser 3.60; Apfelschorle 4.20; Espresso 2.80"),
    "fr": _goods("Soupe du jour 7.00; Salade verte 6.50; Filet de bar 21.00; Entrecôte 24.50; Risotto 16.00;"
                 "Tarte fine 13.50; Crème brûlée 7.50; Eau minérale 4.00; Limonade 4.50; Café 2.40"),
    "es": _goods("Gazpacho 6.20; Ensalada mixta 7.80; Lubina 19.00; Entrecot 22.50; Arroz del senyoret 16.50;"
                 "Croquetas 9.20; Flan casero 5.50; Agua mineral 2.60; Limonada 3.40; Café solo 1.60"),
    "pl": _goods("Zupa dnia 4.50; Sałatka 6.80; Sandacz 14.50; Żeberka 13.20; Pierogi ruskie 8.40; Placki 7.90;"
                 "Szarlotka 4.60; Woda 2.10; Lemoniada 3.50; Espresso 2.40"),
    "sv": _goods("Ärtsoppa 7.20; Grönsallad 6.90; Stekt strömming 13.80; Köttbullar 15.90; Raggmunk 12.60;"
                 "Toast Skagen 14.50; Äppelkaka 6.80; Mineralvatten 3.20; Lingondricka 3.60; Espresso 2.90"),
    "jp": _goods("Miso shiru 2.20; Edamame 3.10; Sashimi mori 12.50; Yakitori 5 7.80; Karaage 5.60; Tempura 9.40;"
                 "Onigiri 2.40; Matcha ice 3.60; Oolong cha 2.80; Kohi 2.60"),
}  # fmt: skip

SMALL_GOODS: Final[dict[str, Goods]] = {
    "en": _goods("Notebook A5 4.90; Ball pen 1.60; Paperback 9.90; Postcard 1.20; Flat white 3.40; Scone 2.80;"
                 "City map 6.50"),
    "de": _goods("Heft A5 2.40; Kugelschreiber 1.80; Taschenbuch 12.90; Brezel 0.95; Milchkaffee 3.60;"
                 "Käsekuchen 3.40; Stadtplan 5.90"),
    "fr": _goods("Carnet A5 4.20; Stylo 1.90; Baguette 1.25; Croissant 1.40; Quiche 5.80; Éclair 3.20;"
                 "Jus de pomme 2.90"),
    "es": _goods("Cuaderno A5 3.10; Bolígrafo 1.20; Carpeta 2.40; Rotulador 1.75; Agenda 8.90; Sobres 2.20;"
                 "Plano 4.50"),
    "pl": _goods("Zeszyt A5 1.20; Długopis 0.95; Powieść 10.50; Pocztówka 0.80; Zakładka 1.10; Album 14.90;"
                 "Mapa 5.20"),
    "sv": _goods("Skrivbok A5 4.10; Penna 1.80; Pocketbok 7.90; Vykort 1.50; Bokmärke 1.20; Kalender 12.90;"
                 "Karta 6.40"),
    "jp": _goods("Noto A5 1.60; Pen 1.20; Fude 3.80; Hagaki 0.60; Keshigomu 0.75; Hasami 4.40; Techo 9.80"),
}  # fmt: skip

for _table in (GROCERIES, DISHES, SMALL_GOODS):
    _table["us"] = _table["en"]
